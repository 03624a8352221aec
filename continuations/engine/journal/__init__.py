"""The journal of a worker: versions, files, the end of a run."""
