"""The parts of `cm.Trainer`: checkpoints, logs, the progress bar."""
