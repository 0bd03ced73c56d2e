package main

import "slices"

// mutants are all bugs.
func mutants() []mutant {
	return slices.Concat(groupMutants(), dispatchMutants(), registryMutants(), storeMutants(), logMutants(), limitMutants(), lifeMutants(), fileRegistryMutants(), fileLogMutants(), lostMutants(), growthMutants(), kafkaMutants(), pulsarMutants(), deletionMutants(), frontDoorMutants(), verifyMutants(), proofMutants(), certainMutants(), strangerMutants(), believedMutants(), boundMutants(), orderMutants(), retireMutants(), subscriptionMutants(), turnMutants(), followMutants(), filterMutants(), delayMutants(), pushMutants(), outageMutants(), rateMutants(), applyMutants(), wireMutants(), wireStoreMutants(), oddMutants(), hostMutants(), mistakeMutants(), enemyMutants(), forgedMutants(), idleMutants(), laterMutants(), hostLifeMutants(), waitMutants(), toldMutants(), terminalMutants(), seldomMutants())
}
