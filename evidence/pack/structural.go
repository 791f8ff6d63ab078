package pack

// structural holds the pack against the rules of the structural level.
func (v *verifier) structural() {}
