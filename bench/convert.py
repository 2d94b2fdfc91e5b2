"""How long it takes to convert a torchvision model, and how much memory that holds, as multiples of its weights.

    python bench/convert.py [resnet50]

Prints seconds of `from_torch_module` with the native backend, and the peak of resident memory above what there was before,
divided by the size of the weights, which the source model itself holds once.
"""

import os
import resource
import sys
import threading
import time

import clematis as cm
import torch
import torchvision


def resident() -> int:
    """Bytes of memory that the process holds now."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


class Peak:
    """The most memory that was held while it was entered."""

    def __enter__(self):
        self.most, self.open = resident(), True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self):
        while self.open:
            self.most = max(self.most, resident())
            time.sleep(0.002)

    def __exit__(self, *_):
        self.most = max(self.most, resident())
        self.open = False
        self.thread.join()


def main() -> None:
    """Converts one model."""
    name = sys.argv[1] if len(sys.argv) > 1 else "resnet50"
    torch.set_num_threads(os.cpu_count() or 1)
    # What torch loads at its first export is not the converter's.
    cm.from_torch_module(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)), torch.ones(2, 3, 8, 8))
    before = resident()
    model = torchvision.models.get_model(name, weights=None).eval()
    weights = sum(x.numel() * x.element_size() for x in [*model.parameters(), *model.buffers()])
    x = torch.randn(2, 3, 224, 224)
    with Peak() as peak:
        start = time.perf_counter()
        net = cm.from_torch_module(model, x)
        seconds = time.perf_counter() - start
    assert net(cm.asarray(x.numpy())).shape == (2, 1000)
    ratio = (peak.most - before) / weights
    print(f"{name}: {seconds:.1f} s, {ratio:.2f} times its {weights / 2**20:.0f} MiB of weights, the source included")


if __name__ == "__main__":
    main()
