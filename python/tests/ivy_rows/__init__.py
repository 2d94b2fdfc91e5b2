"""The functional rows: every function of the four dashboards, on every backend, held to one contract."""
