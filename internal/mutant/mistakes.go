package main

// mistakeMutants are bugs that take a mistake in a command line for something else.
func mistakeMutants() []mutant {
	return []mutant{
		{
			name: "missing-file-is-usage", breaks: "a script that asks for exit code 3 takes a value file that is not there for a wrong command line",
			file: "internal/cli/deadletters.go",
			find: "	case errors.Is(err, os.ErrNotExist):", put: "	case false:",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "missing-secret-is-usage", breaks: "a script that asks for exit code 3 takes a secret file that is not there for a wrong command line",
			file: "push/secret.go",
			find: "	if errors.Is(err, os.ErrNotExist) {", put: "	if false {",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "negative-limit-is-all", breaks: "dead letters are listed without an end, as somebody mistyped the limit",
			file: "internal/cli/numbers.go",
			find: "case n < least:", put: "case false:",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "no-time-is-the-default", breaks: "a time of 0 for an attempt at an endpoint is silently 30 seconds",
			file: "internal/cli/subscription.go",
			find: "\"retry-max\", \"timeout\"}", put: "\"retry-max\"}",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
		{
			name: "pauses-contradict", breaks: "a first pause that is longer than the longest is taken without a word",
			file: "internal/cli/consume.go",
			find: "|| o.RetryInitial <= o.RetryMax,", put: "|| true,",
			pkg: "internal/cli", test: "TestMistakesAboutSubscriptionsAreTold$",
		},
	}
}
