from syncopate.profile.records import read_lanes
import enum


class Source(enum.Enum):
    SIMULATED = 1


class Profile:
    @staticmethod
    def of_records(program, ranks, source):
        p = Profile()
        p.ranks = ranks
        return p
