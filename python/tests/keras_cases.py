"""Layers of Keras, each with an example: what people build models of."""

import keras
import numpy as np
from keras import layers as L

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.normal(size=shape).astype("float32")


SIGNAL, IMAGE, VOLUME, ROWS = floats(2, 8, 4), floats(2, 8, 8, 4), floats(2, 6, 6, 6, 2), floats(2, 6)
WORDS = RNG.integers(1, 10, (2, 6)).astype("int32")


def functional(function, *examples):
    """A model of several inputs."""
    places = [keras.Input(x.shape[1:], dtype=x.dtype.name) for x in examples]
    return keras.Model(places, function(*places)), (list(examples),)


def one(layer, x):
    return lambda: (keras.Sequential([layer()]), (x,))


def padded():
    words = WORDS.copy()
    words[0, 4:] = 0
    return keras.Sequential([L.Embedding(10, 4, mask_zero=True), L.LSTM(3)]), (words,)


def attention(layer):
    return lambda: functional(lambda q, v: layer()(q, v), SIGNAL, floats(2, 5, 4))


def merged(layer):
    return lambda: functional(lambda x, y: layer()([x, y]), SIGNAL, floats(2, 8, 4))


CASES = {
    "dense": one(lambda: L.Dense(3, activation="gelu"), ROWS),
    "dense_of_rows": one(lambda: L.Dense(3), SIGNAL),
    "einsum_dense": one(lambda: L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de"), SIGNAL),
    "conv1d": one(lambda: L.Conv1D(3, 3, strides=2, padding="same", activation="relu"), SIGNAL),
    "conv1d_causal": one(lambda: L.Conv1D(3, 3, dilation_rate=2, padding="causal"), SIGNAL),
    "conv2d": one(lambda: L.Conv2D(6, 3, strides=2, padding="same", groups=2), IMAGE),
    "conv2d_dilated": one(lambda: L.Conv2D(3, (3, 2), dilation_rate=(2, 1), use_bias=False), IMAGE),
    "conv3d": one(lambda: L.Conv3D(3, 2, strides=(1, 2, 1), padding="same"), VOLUME),
    "conv1d_transpose": one(lambda: L.Conv1DTranspose(3, 3, strides=2, padding="same"), SIGNAL),
    "conv2d_transpose": one(lambda: L.Conv2DTranspose(3, 3, strides=2), IMAGE),
    "conv2d_transpose_same": one(lambda: L.Conv2DTranspose(3, 4, strides=2, padding="same"), IMAGE),
    "conv3d_transpose": one(lambda: L.Conv3DTranspose(3, 2, strides=2, padding="same"), VOLUME),
    "depthwise1d": one(lambda: L.DepthwiseConv1D(3, padding="same", depth_multiplier=2), SIGNAL),
    "depthwise2d": one(lambda: L.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=2), IMAGE),
    "separable1d": one(lambda: L.SeparableConv1D(3, 3), SIGNAL),
    "separable2d": one(lambda: L.SeparableConv2D(3, 3, padding="same"), IMAGE),
    "max_pool1d": one(lambda: L.MaxPooling1D(2), SIGNAL),
    "max_pool2d": one(lambda: L.MaxPooling2D(3, 2, padding="same"), IMAGE),
    "max_pool3d": one(lambda: L.MaxPooling3D(2), VOLUME),
    "average_pool1d": one(lambda: L.AveragePooling1D(3, 2, padding="same"), SIGNAL),
    "average_pool2d": one(lambda: L.AveragePooling2D(3, 2, padding="same"), IMAGE),
    "average_pool3d": one(lambda: L.AveragePooling3D(2), VOLUME),
    "global_max_pool1d": one(lambda: L.GlobalMaxPooling1D(), SIGNAL),
    "global_average_pool2d": one(lambda: L.GlobalAveragePooling2D(keepdims=True), IMAGE),
    "global_average_pool3d": one(lambda: L.GlobalAveragePooling3D(), VOLUME),
    "adaptive_average_pool2d": one(lambda: L.AdaptiveAveragePooling2D((3, 2)), IMAGE),
    "adaptive_max_pool2d": one(lambda: L.AdaptiveMaxPooling2D((3, 2)), IMAGE),
    "batch_norm": one(lambda: L.BatchNormalization(), IMAGE),
    "batch_norm_of_rows": one(lambda: L.BatchNormalization(momentum=0.9, center=False), ROWS),
    "layer_norm": one(lambda: L.LayerNormalization(), SIGNAL),
    "rms_norm": one(lambda: L.RMSNormalization(), SIGNAL),
    "group_norm": one(lambda: L.GroupNormalization(2), IMAGE),
    "unit_norm": one(lambda: L.UnitNormalization(), SIGNAL),
    "spectral_norm": one(lambda: L.SpectralNormalization(L.Dense(3)), ROWS),
    "normalization": one(lambda: L.Normalization(mean=[1.0] * 6, variance=[2.0] * 6), ROWS),
    "rescaling": one(lambda: L.Rescaling(0.5, -1.0), IMAGE),
    "embedding": one(lambda: L.Embedding(10, 4), WORDS),
    "mha": lambda: functional(lambda x: L.MultiHeadAttention(2, 3, dropout=0.1)(x, x), SIGNAL),
    "mha_causal": lambda: functional(lambda x: L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True), SIGNAL),
    "gqa": lambda: functional(lambda x: L.GroupQueryAttention(4, 4, 2)(x, x), SIGNAL),
    "attention": lambda: functional(lambda q, v: L.Attention()([q, v]), SIGNAL, floats(2, 5, 4)),
    "additive_attention": lambda: functional(lambda q, v: L.AdditiveAttention()([q, v]), SIGNAL, floats(2, 5, 4)),
    "dropouts": lambda: (
        keras.Sequential([L.Dropout(0.3), L.SpatialDropout1D(0.2), L.GaussianDropout(0.1), L.GaussianNoise(0.1)]),
        (SIGNAL,),
    ),
    "alpha_dropout": one(lambda: L.AlphaDropout(0.2), ROWS),
    "activations": lambda: (
        keras.Sequential([
            L.LeakyReLU(0.1), L.PReLU(), L.ELU(), L.ReLU(max_value=6.0, negative_slope=0.1, threshold=0.2),
            *map(L.Activation, ("silu", "tanh", "softsign", "softplus", "selu", "mish", "hard_sigmoid", "hard_silu")),
            *map(L.Activation, ("gelu", "exponential", "log_sigmoid", "relu6", "celu", "squareplus", "glu", "sparsemax")),
            L.Softmax(),
        ]),
        (floats(2, 8),),
    ),
    "add": merged(L.Add), "subtract": merged(L.Subtract), "multiply": merged(L.Multiply), "average": merged(L.Average),
    "maximum": merged(L.Maximum), "minimum": merged(L.Minimum), "concatenate": merged(lambda: L.Concatenate(axis=1)),
    "dot": merged(lambda: L.Dot(axes=2, normalize=True)),
    "reshaping": lambda: (
        keras.Sequential([L.Reshape((16, -1)), L.Permute((2, 1)), L.Flatten(), L.RepeatVector(3)]), (IMAGE,),
    ),
    "padding1d": one(lambda: L.ZeroPadding1D((1, 2)), SIGNAL),
    "padding2d": one(lambda: L.ZeroPadding2D(((1, 2), (0, 1))), IMAGE),
    "padding3d": one(lambda: L.ZeroPadding3D(1), VOLUME),
    "cropping1d": one(lambda: L.Cropping1D((1, 2)), SIGNAL),
    "cropping2d": one(lambda: L.Cropping2D(((1, 2), (0, 1))), IMAGE),
    "cropping3d": one(lambda: L.Cropping3D(1), VOLUME),
    "upsampling1d": one(lambda: L.UpSampling1D(2), SIGNAL),
    "upsampling2d": one(lambda: L.UpSampling2D((2, 3)), IMAGE),
    "upsampling2d_bilinear": one(lambda: L.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    "upsampling3d": one(lambda: L.UpSampling3D(2), VOLUME),
    "resizing": one(lambda: L.Resizing(5, 11), IMAGE),
    "center_crop": one(lambda: L.CenterCrop(5, 6), IMAGE),
    "lstm": one(lambda: L.LSTM(3, return_sequences=True), SIGNAL),
    "lstm_last": one(lambda: L.LSTM(3), SIGNAL),
    "gru": one(lambda: L.GRU(3), SIGNAL),
    "gru_old": one(lambda: L.GRU(3, reset_after=False, return_sequences=True), SIGNAL),
    "simple_rnn": one(lambda: L.SimpleRNN(3, go_backwards=True), SIGNAL),
    "bidirectional": one(lambda: L.Bidirectional(L.LSTM(3, return_sequences=True)), SIGNAL),
    "stacked_cells": one(lambda: L.RNN([L.LSTMCell(3), L.GRUCell(2)]), SIGNAL),
    "conv_lstm1d": one(lambda: L.ConvLSTM1D(2, 3, padding="same"), floats(2, 3, 6, 2)),
    "conv_lstm2d": one(lambda: L.ConvLSTM2D(2, 3, padding="same", return_sequences=True), floats(2, 3, 5, 5, 2)),
    "lstm_states": lambda: functional(lambda x: L.LSTM(3, return_sequences=True, return_state=True)(x), SIGNAL),
    "recurrent_dropout": one(lambda: L.LSTM(3, dropout=0.2, recurrent_dropout=0.1), SIGNAL),
    "masked": padded,
    "masking": lambda: (keras.Sequential([L.Masking(), L.GRU(3)]), (np.where(SIGNAL > -0.5, SIGNAL, 0) * (np.arange(8) < 6)[:, None].astype("float32"),)),
    "time_distributed": one(lambda: L.TimeDistributed(L.Conv2D(2, 3)), floats(2, 3, 5, 5, 2)),
    "lambda": one(lambda: L.Lambda(lambda x: keras.ops.cumsum(x, axis=1) * 2), SIGNAL),
    "category": one(lambda: L.CategoryEncoding(10, output_mode="one_hot"), WORDS[:, :1]),
    "discretization": one(lambda: L.Discretization([-1.0, 0.0, 1.0]), ROWS),
}  # fmt: skip
