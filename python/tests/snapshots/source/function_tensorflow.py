import tensorflow as tf


def standardize(x, scale, shift):
    y = tf.expand_dims(tf.reduce_mean(x, axis=-1), 1)
    y2 = tf.expand_dims(tf.reduce_mean((x - y) ** 2, axis=-1), 1)
    return tf.tanh((x - y) / tf.sqrt(y2 + 1e-5) * scale + shift)
