"""The lab: train, resume, evaluate and draw the experiments of the paper.

It uses the library and is never imported by it; its dependencies are the extra ``carms[lab]``.
"""
