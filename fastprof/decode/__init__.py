"""Decode: which bytes of a capture are which columns of which events?"""
