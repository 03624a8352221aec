"""A worker, and the loop that carries out the steps of its run."""
