import clematis as cm


class MultiHeadAttention(cm.Module):
    def __init__(self):
        self.to_q = cm.nn.Linear(8, 8)
        self.to_kv_k = cm.nn.Linear(8, 8)
        self.to_kv_v = cm.nn.Linear(8, 8)
        self.to_out = [cm.nn.Linear(8, 8)]

    def __call__(self, x):
        q = cm.reshape(self.to_q(x), (-1, 5, 2, 4))
        k = cm.reshape(self.to_kv_k(x), (-1, 5, 2, 4))
        v = cm.reshape(self.to_kv_v(x), (-1, 5, 2, 4))
        q = cm.permute_dims(q, (0, 2, 1, 3))
        k = cm.permute_dims(k, (0, 2, 1, 3))
        v = cm.permute_dims(v, (0, 2, 1, 3))
        q = cm.scaled_dot_product_attention(q, k, v, 0.5)
        q = cm.reshape(cm.permute_dims(q, (0, 2, 1, 3)), (-1, 5, 8))
        return self.to_out[0](q)


class TransformerEncoderLayer(cm.Module):
    def __init__(self):
        self.norms = [cm.nn.LayerNorm(8) for _ in range(2)]
        self.attention = MultiHeadAttention()
        self.hidden = cm.nn.Linear(8, 16)
        self.out = cm.nn.Linear(16, 8)

    def __call__(self, x):
        x = x + self.attention(self.norms[0](x))
        y = cm.gelu(self.hidden(self.norms[1](x)), approximate=False)
        return x + self.out(y)


class Encoder(cm.Module):
    def __init__(self):
        self.layers = [TransformerEncoderLayer() for _ in range(2)]
        self.norm = cm.nn.LayerNorm(8)
        self.head = cm.nn.Linear(8, 3)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def load(path):
    """The model with the weights of a file."""
    model = Encoder()
    model.load(path)
    return model.eval()
