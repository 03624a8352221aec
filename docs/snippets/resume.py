"""Tutorial, step 2: resume the run in a new process."""

from continuations import Finished
from refunds import runner

outcome = runner.resume("refund-A-17")
assert isinstance(outcome, Finished)
print(outcome.output)
