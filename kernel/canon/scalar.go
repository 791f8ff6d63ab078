package canon

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

const notUTF8Msg = "a string has a byte that does not belong to UTF-8 text"

// checkString looks for what I-JSON forbids in a string that the grammar allows. msg
// is "" if there is nothing. at is relative to token.
func checkString(token []byte, encoded bool) (at int, kind Kind, msg string) {
	for i := 1; i < len(token)-1; {
		switch c := token[i]; {
		case c == '\\' && token[i+1] != 'u':
			i += 2
		case c == '\\':
			unit, _ := hex4(token[i:])
			char, n := rune(unit), 6
			if utf16.IsSurrogate(char) {
				low, _ := hex4(token[i+6:])
				char, n = utf16.DecodeRune(char, rune(low)), 12
			}
			if encoded && string(token[i:i+6]) == `\ufffd` {
				return i, KindEncoding, notUTF8Msg
			}
			if noncharacter(char) {
				return i, KindCharacter, noncharacterMsg(char)
			}
			i += n
		case c < 0xef: // no character below U+F000 is a noncharacter
			i++
		default:
			char, n := utf8.DecodeRune(token[i:])
			if noncharacter(char) {
				return i, KindCharacter, noncharacterMsg(char)
			}
			i += n
		}
	}
	return 0, "", ""
}

func noncharacter(c rune) bool {
	return c&0xfffe == 0xfffe || c >= 0xfdd0 && c <= 0xfdef
}

func noncharacterMsg(c rune) string {
	return fmt.Sprintf("U+%04X is a Unicode noncharacter, which no text may hold; remove it", c)
}

// hex4 reads the four digits of the \u escape at the beginning of b.
func hex4(b []byte) (unit uint16, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var bytes [2]byte
	_, err := hex.Decode(bytes[:], b[2:6])
	return binary.BigEndian.Uint16(bytes[:]), err == nil
}

// safeDigits is the greatest length, with the sign, at which every integer is safe.
const safeDigits = 15

// checkNumber says why a number that the grammar allows is refused, or "".
func checkNumber(token []byte, encoded bool) string {
	digits := digitsAlone(token)
	if digits && len(token) <= safeDigits {
		return ""
	}
	f, err := strconv.ParseFloat(string(token), 64)
	switch {
	case err != nil:
		return "number " + quoteJSON(string(token)) + " is too large for a double; write it as a string"
	case f == 0 && !writtenZero(token):
		return "number " + quoteJSON(string(token)) + " is too small for a double and would become 0; write it as a string"
	case encoded:
		if canonical, _ := jcs.NumberToJSON(f); digits && canonical != string(token) {
			return "integer " + quoteJSON(string(token)) + " has digits that a double does not keep; write it as a string"
		}
		return ""
	case math.Abs(f) > MaxSafeInteger && (digits || math.Abs(f) < 1e21):
		return "number " + quoteJSON(string(token)) + " is beyond ±9007199254740991, where integers lose digits; write it as a string"
	}
	return ""
}

// isCanonicalInteger says whether a number is an integer that is certainly spelled as
// RFC 8785 spells it. The grammar must allow the number.
func isCanonicalInteger(token []byte) bool {
	return len(token) <= safeDigits && digitsAlone(token) && string(token) != "-0"
}

// digitsAlone says whether a number is written without fraction and exponent.
func digitsAlone(token []byte) bool {
	for i, c := range token {
		if (c < '0' || c > '9') && (i > 0 || c != '-') {
			return false
		}
	}
	return true
}

// writtenZero says whether all digits before the exponent are 0.
func writtenZero(token []byte) bool {
	for _, c := range token {
		if c == 'e' || c == 'E' {
			break
		}
		if c >= '1' && c <= '9' {
			return false
		}
	}
	return true
}
