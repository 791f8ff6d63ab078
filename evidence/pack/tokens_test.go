package pack

import (
	"fmt"
	"testing"
)

// TestTokens: counts are members with exactly these names, each once.
func TestTokens(t *testing.T) {
	for response, want := range map[string]string{
		`{"usage":{"prompt_tokens":3,"completion_tokens":1}}`:                                           "3 1",
		` { "usage" : { "completion_tokens" : 1 , "total_tokens" : 4 , "prompt_tokens" : 3 } } `:        "3 1",
		`{"\u0075sage":{"prompt\u005ftokens":3}}`:                                                       "3 -",
		`{"usage":{"prompt_tokens":9007199254740991,"completion_tokens":0}}`:                            "9007199254740991 0",
		`{"usage":{"prompt_tokens":9007199254740992,"completion_tokens":-1}}`:                           "- -",
		`{"usage":{"prompt_tokens":3.0,"completion_tokens":1e0}}`:                                       "- -",
		`{"usage":{"prompt_tokens":"3","completion_tokens":null}}`:                                      "- -",
		"{\"u\u017fage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}":                                "- -",
		"{\"usage\":{\"PROMPT_TOKENS\":3,\"completion_to\u212aens\":1}}":                                "- -",
		`{"Usage":{"prompt_tokens":3},"usage":{"Prompt_Tokens":4,"completion_tokens":1}}`:               "- 1",
		`{"usage":{"prompt_tokens":3,"PROMPT_TOKENS":4,"completion_tokens":1,"Completion_Tokens":"x"}}`: "3 1",
		`{"usage":{"prompt_tokens":3,"prompt_tokens":3,"completion_tokens":1}}`:                         "- 1",
		`{"usage":{"prompt_tokens":3},"usage":{"prompt_tokens":3}}`:                                     "- -",
		`{"usage":{"prompt_tokens":3},"usage":7,"usage":{"prompt_tokens":3}}`:                           "- -",
		`{"choices":[{"usage":{"prompt_tokens":3}}]}`:                                                   "- -",
		`{"usage":[{"prompt_tokens":3}]}`:                                                               "- -",
		`[{"usage":{"prompt_tokens":3}}]`:                                                               "- -",
		`{"usage":{"prompt_tokens":3}} x`:                                                               "- -",
		`{"usage":{"prompt_tokens":3}`:                                                                  "- -",
		`"usage"`:                                                                                       "- -",
		``:                                                                                              "- -",
	} {
		input, output := Tokens([]byte(response))
		show := func(n *int64) string {
			if n == nil {
				return "-"
			}
			return fmt.Sprint(*n)
		}
		if got := show(input) + " " + show(output); got != want {
			t.Errorf("%s has %s, want %s", response, got, want)
		}
	}
}
