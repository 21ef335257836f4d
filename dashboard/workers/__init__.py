"""Work beside a request: helper processes, lanes of the queue, wakes, kill points."""
