import clematis as cm


class CNN(cm.Module):
    def __init__(self):
        self.conv1 = cm.nn.Conv2D(3, 8, 3, 2, ((0, 1), (0, 1)))
        self.norm1 = cm.nn.BatchNorm(8)
        self.conv2 = cm.nn.Conv2D(8, 16, 3, 1, "VALID", with_bias=False)
        self.norm2 = cm.nn.BatchNorm(16)
        self.head = cm.nn.Linear(16, 10)

    def __call__(self, x):
        x = cm.relu(self.norm1(self.conv1(x)))
        x = self.norm2(self.conv2(cm.max_pool2d(x, 2, 2, "VALID")))
        return self.head(cm.mean(cm.relu(x), axis=(1, 2)))


def load(path):
    """The model with the weights of a file."""
    model = CNN()
    model.load(path)
    return model.eval()
