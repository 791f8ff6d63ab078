// Command empty does nothing: what starting a Go program costs.
package main

func main() {}
