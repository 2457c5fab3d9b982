package command

// These values must never change: a stored command, a redelivered command and a rebuilt ledger
// must give the same hash and the same key.
const (
	goldenOrderHash   = "1ba554f9e354e880d86bfb54e87534b1d0c5902e7f713e5079e1d1b995a66318"
	goldenRenewalHash = "068a6304f5102563944fa30a3e4e591c47cf30b50fbe67b96dc92091618c8560"
)

// goldenKeys are keys of account acc_1 in the sandbox: order buy/1, renewal buy/1, renewal
// keep/0001 in its first and second generation, and keep/0001a.
var goldenKeys = []string{
	"perennial-gh2xceiexnecayycyq32v2ezz2pg7duko76nxsph",
	"perennial-pigmsfxzewujjhkqgx5jh74zux73uvux24qfgbrh",
	"perennial-g6y5wey2qunetgedjvyv2gk2njhswy2sztb2rdl5",
	"perennial-5ik3o5hi2k37hoxu4shzb2eg5hm52uxbwnajqm2s",
	"perennial-4ye55ce44xglbzuqiqngdw6iz3j2ghl7zgiad2cv",
}
