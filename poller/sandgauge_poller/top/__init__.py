"""The page's table in a terminal."""
