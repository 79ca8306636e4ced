"""The formats of files, one module each: from text to `CollectiveSteps`, or to `Exchange`s and `Ring`s.

A format whose programs are threads of instructions has another module for what these mean, and one that plans are
written in has a module for that. `importers.files` lists them. What they say is read with `importers.documents` and
given as what `importers.steps` or `importers.layouts` make plans of. Programs of XLA are in `importers.xla`.
"""
