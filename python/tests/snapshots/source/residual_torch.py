import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


class Block(nn.Module):
    def __init__(self, out_features):
        super().__init__()
        self.conv1 = nn.Conv2d(4, out_features, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(out_features, 4, kernel_size=3, padding=1)

    def forward(self, x):
        return F.relu(x + self.conv2(F.relu(self.conv1(x))))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, kernel_size=1)
        self.first = Block(8)
        self.second = Block(6)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.second(self.first(self.stem(x.permute(0, 3, 1, 2))))
        return self.head(x.mean(dim=(2, 3)))


def load(path):
    """The model with the weights of a file."""
    model = Residual()
    model.load_state_dict(load_file(path))
    return model.eval()
