"""Text with structure, XML or JSON, as elements that know their lines and say what is wrong with them."""
