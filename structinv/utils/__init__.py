"""What is not about learning: compiled functions, matrices, files, resources, and checks of plug-ins."""
