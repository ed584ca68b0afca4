"""A library with a random generator of its own."""
import random

mine = random.Random(1)
