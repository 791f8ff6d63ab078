// Package lazy makes the value of a package variable at its first use, so that no package of
// this program has work before main.
package lazy

import "sync"

// Value is made by Make when Get is first called. A variable that is a literal of a Value is
// laid out by the compiler; sync.OnceValue would run before main.
type Value[T any] struct {
	Make  func() T
	first sync.Once
	get   func() T
}

// Get returns the value. It panics on each call if Make panics.
func (v *Value[T]) Get() T {
	v.first.Do(func() { v.get = sync.OnceValue(v.Make) })
	return v.get()
}
