import clematis as cm


class LSTM(cm.Module):
    def __init__(self):
        self.input_layer_0 = cm.nn.Linear(8, 24)
        self.recurrent_layer_0_w = cm.zeros((6, 24))
        self.recurrent_layer_0_b = cm.zeros((24,))

    def __call__(self, x):
        batch = x.shape[0]
        y = cm.zeros((batch, 6))
        x = cm.permute_dims(self.input_layer_0(x) + self.recurrent_layer_0_b, (1, 0, 2))

        def step(carry, x, w=self.recurrent_layer_0_w):
            h, c = carry
            x = x + h @ w
            y = x[:, :6]
            y2 = x[:, 18:]
            y = cm.sigmoid(y) * cm.tanh(x[:, 12:18])
            x = cm.sigmoid(x[:, 6:12]) * c + y
            y2 = cm.sigmoid(y2) * cm.tanh(x)
            return (y2, x), y2

        (_, _), h = cm.scan(step, (cm.zeros((batch, 6)), y), x)
        return cm.reshape(cm.permute_dims(h, (1, 0, 2))[:, 4:], (-1, 6))


class Classifier(cm.Module):
    def __init__(self):
        self.words = cm.nn.Embedding(20, 8)
        self.lstm = LSTM()
        self.head = cm.nn.Linear(6, 4)

    def __call__(self, index):
        return self.head(self.lstm(self.words(index)))


def load(path):
    """The model with the weights of a file."""
    model = Classifier()
    model.load(path)
    return model.eval()
