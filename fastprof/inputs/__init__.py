"""Inputs: which files are meant, and what are their bytes?"""
