package contract

import (
	"fmt"
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
)

// CheckStdin is IV-05 for standard input at the pointer at, which has size bytes.
// Too much is refused, never cut, and so is a size below zero.
func CheckStdin(at string, size int64) *Violation {
	most := int64(StdinBytes().Max)
	if size >= 0 && size <= most {
		return nil
	}
	v := &Violation{ID: IV05, Pointer: at, Hint: "put the data into an input file",
		Msg: fmt.Sprintf("standard input has %d bytes, more than %d", size, most)}
	if size < 0 {
		v.Msg, v.Hint = "size of standard input is not known", "find out the size first"
	}
	return v
}

// CheckInputFiles is IV-05 for a list of input files at the pointer at, of which
// sizes has the bytes. A list with too many files is refused at its own pointer,
// and at the first file with which the total becomes too large, or the first
// whose size is below zero; nothing after such a file is looked at.
func CheckInputFiles(at string, sizes []int64) []Violation {
	var list []Violation
	if most := InputFiles().Max; len(sizes) > most {
		list = append(list, Violation{ID: IV05, Pointer: at, Hint: "name fewer files",
			Msg: fmt.Sprintf("%d input files, more than %d", len(sizes), most)})
	}
	most := int64(InputFilesBytes().Max)
	left := most
	for i, size := range sizes {
		if size < 0 {
			return append(list, Violation{ID: IV05, Pointer: element(at, i), Msg: "size of an input file is not known", Hint: "find out the size first"})
		}
		if size > left {
			return append(list, Violation{ID: IV05, Pointer: element(at, i), Hint: "leave out what is not needed",
				Msg: fmt.Sprintf("input files have more than %d bytes together", most)})
		}
		left -= size
	}
	return list
}

// element is the pointer of element i of the list at the pointer at.
func element(at string, i int) string { return canon.Pointer(at, strconv.Itoa(i)) }
