"""What commands share: arguments, progress displays and tables in the terminal."""
