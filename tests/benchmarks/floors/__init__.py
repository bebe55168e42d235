"""What our statements and our broker cost with no Python in the way: the floor of every figure."""
