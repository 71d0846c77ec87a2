"""Words for prompts that have to be text: short and frequent, so that most tokenizers make one token of each."""

_TEXT = (
    "the of and to in is was he for it with as his on be at by had not are but from or have an they which one you were all her she "
    "there would their we him been has when who will no more if out so up said what its about than into them can only other time "
    "new some could these two may first then do any like my now over such our man me even most made after also well did many must "
    "before back see through way where get much go good your down should because each just those people how too little state very "
    "make world still own work long both life being under never day same another know while last might us great old year off come "
    "since against right came take used himself house three use place again found here home between water part few end head side "
    "high city small set put war group night line open word light far large name sound white four young play move face hand love "
    "road tree fire wind sea blue green red sun moon rain snow stone bird fish horse dog cat book song voice music paper table door"
)

WORDS = _TEXT.split()
