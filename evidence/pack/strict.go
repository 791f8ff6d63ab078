package pack

// strict holds the pack against what the strict level adds.
func (v *verifier) strict() {}
