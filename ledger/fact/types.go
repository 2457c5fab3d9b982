// The list of all facts.

package fact

// Types gives a zero value of each type of fact by its name, for
// schemas.
func Types() map[string]Fact {
	types := map[string]Fact{}
	for name, decode := range decoders {
		fact, err := decode([]byte(`{}`))
		if err != nil {
			panic("the zero value of " + name + " cannot be read: " + err.Error()) // a mistake in this package
		}
		types[name] = fact
	}
	return types
}
