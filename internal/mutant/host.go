package main

// hostMutants are bugs that let what others on the same host prepared, or what lies in a file, take memory,
// a disk or a password.
func hostMutants() []mutant {
	const pkg = "commitlog/filelog"
	return []mutant{
		{
			name: "page-without-an-end", breaks: "a page that somebody made large takes the whole disk when its topic is opened",
			file: pkg + "/internal/page/page.go",
			find: "	size = min(size, Size(mostPartitions))", put: "	size = max(size, Size(0))",
			pkg: pkg + "/internal/page", test: "TestALargeFileIsMappedAsFarAsAPageGoes$",
		},
		{
			name: "counts-up-to-a-promise", breaks: "a page that names a segment far away has whoever opens its topic count up to it, and fills the memory",
			file: pkg + "/plan.go",
			find: "	if top-w.start > uint64(len(ev.numbers))+limits.MissingSegments {\n", put: "	if top-w.start > uint64(len(ev.numbers))+limits.MissingSegments<<32 {\n",
			pkg: pkg, test: "TestASegmentThatIsPromisedFarAwayIsToldInOneLine$",
		},
		{
			name: "lists-up-to-a-promise", breaks: "a directory of a stranger fills the memory of who checks it",
			file: pkg + "/inspect.go",
			find: "to-from > limits.MissingSegments {", put: "to-from > limits.MissingSegments<<32 {",
			pkg: pkg, test: "TestASegmentThatIsPromisedFarAwayIsToldInOneLine$",
		},
		{
			name: "segment-without-an-end", breaks: "a hole of terabytes behind a segment is read by whoever opens the topic",
			file: pkg + "/seg.go",
			find: "	return min(size, limits.SegmentFileBytes), err\n", put: "	return max(size, limits.SegmentFileBytes>>40), err\n",
			pkg: pkg, test: "TestASegmentIsReadNoFurtherThanOneGoes$",
		},
		{
			name: "files-of-the-home-unjudged", breaks: "passwords, keys and CAs in ~/.pgpass and ~/.postgresql are used though others have a hand in them",
			file: "registry/pgregistry/sources.go",
			find: "	return filepath.Join(s.home, f.home), \"the default for \" + f.name\n", put: "	return path, f.home + s.home\n",
			pkg: "registry/pgregistry", test: "TestFilesOfTheHomeThatOthersHaveAHandInAreRefused$",
		},
		{
			name: "no-home", breaks: "which files of the home count is not known, so none is looked at",
			file: "registry/pgregistry/sources.go",
			find: "		s.home = me.HomeDir\n", put: "		s.home = me.HomeDir[:0]\n",
			pkg: "registry/pgregistry", test: "TestFilesOfTheHomeThatOthersHaveAHandInAreRefused$",
		},
		{
			name: "made-behind-a-link", breaks: "a link of a stranger says where directories are made, before it is refused",
			file: "internal/vfs/os_private.go",
			find: "		err = checkAbove(abs, nil) // before", put: "		err = checkAbove(\"/\", nil) // before",
			pkg: ".", test: "TestTheWayToADirectoryIsLookedAt$",
		},
		{
			name: "close-tmp", breaks: "a message tells to close /tmp to all users of the host",
			file: "internal/vfs/os_private.go",
			find: "	case info.Mode()&fs.ModeSticky != 0 && info", put: "	case info.Mode()&fs.ModeSticky != 0 && path == \"\" && info",
			pkg: "registry/sqlregistry", test: "TestFilesOfSQLiteThatOthersCanOpenAreRefused$",
		},
		{
			name: "chmod-what-is-theirs", breaks: "a message sends in circles who is given a secret that another user owns: its mode is 0600 already",
			file: "internal/access/access.go",
			find: "	if owner := Owner(f); owner > 0 && owner != os.Geteuid() {", put: "	if owner := Owner(f); owner > 0 && owner == os.Geteuid() {",
			pkg: "internal/access", test: "TestWhatMendsAnExposedFileDependsOnItsOwner$",
		},
		{
			name: "apply-what-others-wrote", breaks: "a file that anybody can write is applied",
			file: "internal/cli/apply.go",
			find: "	if err := a.checkAuthor(path, f); err != nil {\n", put: "	if err := a.checkAuthor(path, f); err != nil && path == \"\" {\n",
			pkg: "internal/cli", test: "TestAFileToApplyThatOthersCanWriteIsRefused$",
		},
		{
			name: "value-of-a-device", breaks: "a value is read from a device, and of a FIFO waited for longer than --timeout",
			file: "internal/cli/deadletters.go",
			find: "	f, err := storeurl.OpenFile(ctx, file)\n", put: "	_ = storeurl.OpenFile\n	f, err := os.Open(file)\n",
			pkg: "internal/cli", test: "TestAFIFOInThePlaceOfAFileIsWaitedForNoLongerThanAsked$",
		},
	}
}
