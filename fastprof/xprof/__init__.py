"""XProf: what does XProf answer, and where does it differ from what is so?"""
