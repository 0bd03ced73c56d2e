package main

// applyMutants are bugs of what is applied from a file.
func applyMutants() []mutant {
	const pkg, cli, script = "internal/apply", "internal/cli", "TestScripts/apply$"
	const overwrites = "TestAPlanDoesNotOverwriteWhatChangedSinceItWasMade$"
	return []mutant{
		{
			name: "apply-dry-run-writes", breaks: "a dry run applies the file",
			file: "internal/cli/apply.go",
			find: "if plan.DryRun = dryRun; !dryRun {", put: "if plan.DryRun = dryRun; true {",
			pkg: cli, test: script,
		},
		{
			name: "apply-half-a-file", breaks: "what can't be changed is refused when the rest was applied",
			file: "internal/apply/plan.go",
			find: "	return p, errors.Join(errs...)\n", put: "	if err := errors.Join(errs...); err != nil {\n		return p, errors.Join(p.Apply(ctx), err)\n	}\n	return p, nil\n",
			pkg: cli, test: script,
		},
		{
			name: "apply-unknown-field", breaks: "a field that is misspelt is ignored",
			file: "internal/apply/decode.go",
			find: "			return ok\n", put: "			return true\n",
			pkg: pkg, test: "TestFaultsOfAFileAreToldWithTheirLine$",
		},
		{
			name: "apply-topic-twice", breaks: "of a topic that stands in two documents the last one counts",
			file: "internal/apply/decode.go",
			find: "double := d.lines[what+\" \"+name]; double {", put: "double := d.lines[what+\" \"+name]; double && false {",
			pkg: pkg, test: "TestFaultsOfAFileAreToldWithTheirLine$",
		},
		{
			name: "apply-overwrites", breaks: "a change that was made since the plan is undone",
			file: "topic/retention.go",
			find: "if from != nil && doc.Retention() != *from {", put: "if from != nil && false {",
			pkg: pkg, test: overwrites,
		},
		{
			name: "apply-another-life", breaks: "a plan changes another topic that got the name",
			file: "alter.go",
			find: "Life: o.Life, From: o.From", put: "From: o.From",
			pkg: pkg, test: "TestATopicOfTheNameThatIsAnotherByNowIsNotChanged$",
		},
		{
			name: "apply-race-unseen", breaks: "nobody hears that somebody else created the same in another way",
			file: "internal/apply/plan.go",
			find: "	if steps == 0 {\n", put: "	if steps >= 0 {\n",
			pkg: pkg, test: "TestOfTwoThatCreateTheSameOneHearsOfTheConflict$",
		},
		{
			name: "apply-filter-unread", breaks: "a file with a filter is refused the second time",
			file: "internal/apply/plan.go",
			find: "Filter: d.Filter, ", put: "",
			pkg: pkg, test: "TestAFileThatNamesEverySettingIsUnchangedTheSecondTime$",
		},
		{
			name: "apply-limits-overwritten", breaks: "limits that somebody else set since the plan are undone",
			file: "subscription/limits.go",
			find: "case o.From != nil && *o.From != was:", put: "case false:",
			pkg: pkg, test: "TestTheLimitsOfASubscriptionAreChangedInPlace$",
		},
		{
			name: "apply-limits-of-another-life", breaks: "a plan changes the limits of another subscription that got the name",
			file: "subscription/limits.go",
			find: `case o.Life != "" && o.Life != d.Life():`, put: "case false:",
			pkg: pkg, test: "TestTheLimitsOfASubscriptionAreChangedInPlace$",
		},
	}
}
