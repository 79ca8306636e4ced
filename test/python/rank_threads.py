"""Ranks as threads of one process."""

from concurrent.futures import ThreadPoolExecutor


def on_ranks(count, body):
    """What `body(rank)` returns, or raises, on each of so many threads; what it asserts fails the test."""

    def run(rank):
        try:
            return body(rank)
        except Exception as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(run, range(count)))
    for result in results:
        if isinstance(result, AssertionError):
            raise result
    return results
