"""What experiments on MED have in common: jobs, devices and schemes of Mays, ch. 4, and what is made of the rows."""
