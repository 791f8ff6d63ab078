package trial

// For tests in package trial_test.
var (
	ParseLiteral = parseLiteral
	Literal      = literal
)
