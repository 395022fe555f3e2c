// Cargo asks for a library; there is none.
