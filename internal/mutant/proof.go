package main

// proofMutants are bugs of what the proofs themselves stand on.
func proofMutants() []mutant {
	return []mutant{
		{
			name: "the-dead-keep-storing", breaks: "the goroutines of a killed process change the pages of the living, and sound code fails the crash matrix",
			file: "internal/vfs/mem.go",
			find: "		m.detach()\n", put: "		_ = m\n",
			pkg: "internal/vfs", test: "TestStoresOfAKilledProcessStayItsOwn$",
		},
	}
}
