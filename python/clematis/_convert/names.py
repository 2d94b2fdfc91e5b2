"""The converters that users call, and the files where they are."""

NAMES = {
    "convert": "anything",
    "from_backend_module": "choose",
    "from_file": "files",
    "from_flax_module": "incoming_jax",
    "from_haiku_module": "incoming_jax",
    "from_jax": "incoming_jax",
    "from_keras_module": "incoming_keras",
    "from_onnx": "onnx",
    "from_torch": "incoming",
    "from_torch_module": "incoming",
    "source": "source",
    "to_file": "files",
    "to_flax_module": "outgoing",
    "to_haiku_module": "outgoing",
    "to_keras_module": "outgoing",
    "to_onnx": "onnx",
    "to_torch_module": "outgoing",
}
