import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=3, stride=2)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3, bias=False)
        self.norm2 = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.conv1(F.pad(x.permute(0, 3, 1, 2), (0, 1, 0, 1)))
        x = self.conv2(F.max_pool2d(F.relu(self.norm1(x)), 2))
        return self.head(F.relu(self.norm2(x)).mean(dim=(2, 3)))


def load(path):
    """The model with the weights of a file."""
    model = CNN()
    model.load_state_dict(load_file(path))
    return model.eval()
