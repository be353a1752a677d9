"""Gradients of trained models, measured."""
