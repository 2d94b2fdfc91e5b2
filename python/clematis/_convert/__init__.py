"""Import and export of models: capturing front ends, converters, and the modules they return."""
