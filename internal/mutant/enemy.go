package main

// enemyMutants are bugs of what stands when somebody else has written into the store.
func enemyMutants() []mutant {
	return []mutant{
		{
			name: "journal-of-holes", breaks: "a sparse journal of terabytes is read to its end, and fills the disk with the other one",
			file: "registry/fileregistry/space.go",
			find: "	if size > limits.JournalBytes {", put: "	if size > 1<<62 {",
			pkg: "registry/fileregistry", test: "TestAJournalOfTerabytesOfNothingIsRefusedAtOnce$",
		},
	}
}
