package trial

// faultWords has the word of each message of a fault.
func faultWords() [][2]string {
	return [][2]string{
		{"root_type", msgRoot}, {"member_missing", msgMissing}, {"not_a_string", msgText}, {"not_a_number", msgNumber},
		{"not_an_array", msgList}, {"not_an_object", msgObject}, {"content_type", msgContent}, {"value_not_allowed", msgWord},
		{"call_id_twice", msgTwin}, {"evidence_form", msgNames}, {"evidence_unresolved", msgNothing}, {"no_json_form", msgNoJSON},
	}
}

// Word names the message of a fault in one word, as the error_name of a failure has it.
func (f Fault) Word() string {
	for _, w := range faultWords() {
		if w[1] == f.Msg {
			return w[0]
		}
	}
	return "more_faults"
}

// FaultText returns the message that a word names; "" if no message has it.
func FaultText(word string) string {
	for _, w := range faultWords() {
		if w[0] == word {
			return w[1]
		}
	}
	return ""
}

// FaultWords returns all words of faults.
func FaultWords() (words []string) {
	for _, w := range faultWords() {
		words = append(words, w[0])
	}
	return words
}
