package main

import "slices"

// mutants are all bugs.
func mutants() []mutant {
	return slices.Concat(groupMutants(), dispatchMutants(), registryMutants(), storeMutants(), logMutants(), growthMutants(), frontDoorMutants())
}
