"""Processes that take turns: each waits for a line, works for a moment and answers with its times, so that all of them see
the same machine."""

import json
import os
import subprocess
import time

# Threads of some libraries go on spinning after their work, which the next one would have to share the processors with.
PAUSE = 0.1
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Runner:
    def __init__(self, name, command, threads):
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CLEMATIS_THREADS", "BENCH_THREADS")
        env.update(dict.fromkeys(names, str(threads)))
        if threads == 1:
            env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        pipe = subprocess.PIPE
        self.name, self.times, self.busy, self.answer = name, [], 0.0, {}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=env)

    def turn(self, order):
        """Whether it answered; what it measured is added up."""
        time.sleep(PAUSE)
        try:
            self.process.stdin.write(f"{order}\n")
            self.process.stdin.flush()
            self.answer = json.loads(self.process.stdout.readline())
            self.times += self.answer.pop("times")
            self.busy += self.answer.pop("busy", 0.0)
        except (ValueError, OSError):
            return False
        return True

    def clear(self):
        self.times, self.busy = [], 0.0

    def end(self):
        try:
            self.process.stdin.close()
        except OSError:
            print(f"{self.name} ended early", flush=True)
        self.process.wait()


def example(name):
    """The command of our own side, which cargo has built."""
    return os.path.join(ROOT, "target", "release", "examples", name)


def measured(step, seconds, shortest=0.0):
    """The times of `step` within so many seconds, in milliseconds, and the processor time of all threads. Short work is
    repeated until it takes so many seconds."""
    times, end, busy = [], time.perf_counter() + seconds, time.process_time()
    while time.perf_counter() < end or not times:
        start, count = time.perf_counter(), 0
        while not count or time.perf_counter() - start < shortest:
            step()
            count += 1
        times.append((time.perf_counter() - start) * 1e3 / count)
    return {"times": times, "busy": (time.process_time() - busy) * 1e3}


def answer(**fields):
    print(json.dumps(fields), flush=True)
