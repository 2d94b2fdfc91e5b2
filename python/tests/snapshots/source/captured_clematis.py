import clematis as cm


class SelfAttn(cm.Module):
    def __init__(self):
        self.in_proj = cm.nn.Linear(8, 24)
        self.out_proj = cm.nn.Linear(8, 8)

    def __call__(self, x):
        qkv = self.in_proj(cm.permute_dims(x, (1, 0, 2)))
        qkv = cm.reshape(qkv, (1, 16, -1, 3, 8))
        qkv = cm.permute_dims(qkv, (3, 1, 2, 0, 4))
        qkv = cm.reshape(qkv, (3, 16, -1, 8))
        q = cm.permute_dims(cm.reshape(qkv[:1], (16, -1, 4)), (1, 0, 2))
        k = cm.permute_dims(cm.reshape(qkv[1:2], (16, -1, 4)), (1, 0, 2))
        v = cm.permute_dims(cm.reshape(qkv[2:], (16, -1, 4)), (1, 0, 2))
        q = cm.reshape(q, (-1, 2, 16, 4))
        k = cm.reshape(k, (-1, 2, 16, 4))
        v = cm.reshape(v, (-1, 2, 16, 4))
        q = cm.scaled_dot_product_attention(q, k, v, 0.5)
        q = cm.reshape(cm.permute_dims(q, (2, 0, 1, 3)), (-1, 8))
        q = cm.reshape(self.out_proj(q), (16, -1, 8))
        return cm.permute_dims(q, (1, 0, 2))


class Encoder(cm.Module):
    def __init__(self):
        self.self_attn = SelfAttn()
        self.norm1 = cm.nn.LayerNorm(8)
        self.linear1 = cm.nn.Linear(8, 16)
        self.linear2 = cm.nn.Linear(16, 8)
        self.norm2 = cm.nn.LayerNorm(8)

    def __call__(self, x):
        x = self.norm1(x + self.self_attn(x))
        return self.norm2(x + self.linear2(cm.relu(self.linear1(x))))


class Net(cm.Module):
    def __init__(self):
        self.features = [
            cm.nn.Conv2D(3, 8, 3, 1, ((1, 1), (1, 1)), data_format="NCHW"),
            cm.nn.BatchNorm(8, data_format="NCS"),
        ]
        self.encoder = [Encoder() for _ in range(2)]
        self.classifier = cm.nn.Linear(8, 4)

    def __call__(self, image):
        for feature in self.features:
            image = feature(image)
        image = cm.max_pool2d(cm.relu(image), 2, 2, "VALID", data_format="NCHW")
        image = cm.permute_dims(cm.reshape(image, (-1, 8, 16)), (0, 2, 1))
        for layer in self.encoder:
            image = layer(image)
        return self.classifier(cm.mean(image, axis=1))


def load(path):
    """The model with the weights of a file."""
    model = Net()
    model.load(path)
    return model.eval()
