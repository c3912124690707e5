"""Devices: what is known of a device, of its peaks, and of the names and clocks of its ops?"""
