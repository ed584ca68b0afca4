"""Unit tests of what is told of Hutch's head start."""
import unittest

from hutch_peers import warm_facts


class WarmFactsTest(unittest.TestCase):
    def test_libraries_are_named_and_the_standard_library_is_counted(self) -> None:
        told = warm_facts({"bare": ["json", "re"], "default": ["json", "re", "pandas", "matplotlib.pyplot"]})
        self.assertEqual(told, "template bare has 2 modules of the standard library; template default has 2 modules of "
                               "the standard library, pandas, matplotlib.pyplot")


if __name__ == "__main__":
    unittest.main()
