(* E2.v: the lower bound of the certificate checker is sound (claim E2).

   offline_opt/certificate/checker.py accepts any prices >= 0 and computes LB from them. Below, `bound` is that
   computation in integers, and `weak_duality` says that no schedule that Model.run accepts costs less.

   What mirrors what:
     whole, slots, serves, units    checker.py _bound
     reward, gain, share_up         _bound: reward, gain (only entries of positive weight); _share_up
     events                         _chances: where an item may enter, boundary by boundary
     legs                           _bound: stay, come (prices summed from entry to entry, latest chance)
     matrix, mul, pairs, heaviest   _heaviest: the (max, +) matrices and their product in pairs
     keeps, kept, ceiling           _bound: kept, ceiling; _utilities of what is reachable
     check_grid, rounded            _check_grid and the last line of _bound
   Covered: both orders, stream and pool, free and charged fill, sizes, weights, all three aggregators, with
   and without a score. Differences: `None` where Python has the number `never`; lists over all steps instead
   of arrays over the nonzero ones; integers without bounds; 1/(full mult) is the unit of all prices (Python's
   1/scale, with mult = scale // full), and lambda = p/q; a certificate of coverage without credits is one with
   all credits w_t.
   Not covered: the reading of files.                                                                        *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(* ---- prices and what an item can earn ------------------------------------------------------------------ *)

(* credit: what an item is paid per 1.0 of quality in coverage; the rest of the weight stays with the step. *)
Record tag := Tag { slot : Z; serve : Z; credit : Z }.

(* checker.py _share_up: ceil(amount part / unit). *)
Definition share_up (amount part unit : Z) : Z := - ((- (amount * part)) / unit).

Definition most (s : setting) (mult : Z) (x : query) : Z := weight x * (full s * mult).

Definition reward (s : setting) (mult : Z) (x : query) (p : tag) (e : entry) : Z :=
  if covers s then share_up (credit p) (quality e) (full s) else weight x * (quality e * mult).

Definition gain (s : setting) (mult : Z) (x : query) (p : tag) (i : nat) : option Z :=
  if 0 <? weight x
  then match find (fun e => Nat.eqb (item e) i) (row x) with
       | Some e => Some (Z.max 0 (reward s mult x p e - serve p))
       | None => None
       end
  else None.

(* What one step means for one item: may it enter just before the step is served (boundary t), what does it
   pay to be held, and, if the step has an entry of it, what does it gain.                                   *)
Record event := Event { may : bool; hold : Z; earns : option Z }.

(* ready: the step before let the item in. In serve_then_update that is what counts, else the step itself. *)
Fixpoint events (s : setting) (mult : Z) (i : nat) (ready : bool) (tr : list query) (ps : list tag)
  : list event :=
  match tr, ps with
  | x :: tr', p :: ps' =>
      Event (if serves_first s then ready else may_enter s x i) (size s i * slot p) (gain s mult x p i)
      :: events s mult i (may_enter s x i) tr' ps'
  | _, _ => []
  end.

(* ---- (max, +) with None for what is impossible --------------------------------------------------------- *)

Definition omax (a b : option Z) : option Z :=
  match a, b with
  | Some x, Some y => Some (Z.max x y)
  | Some x, None => Some x
  | None, _ => b
  end.
Definition oadd (a b : option Z) : option Z :=
  match a, b with Some x, Some y => Some (x + y) | _, _ => None end.
Definition plus (a : option Z) (x : Z) : option Z := oadd a (Some x).

(* ---- the best path of one item, step by step ----------------------------------------------------------- *)

(* State: the best value with the item out after its last entry, and with the item in now. *)
Definition advance (fee : Z) (state : Z * option Z) (e : event) : Z * option Z :=
  let (out, now) := state in
  let now := plus (omax now (if may e then Some (out - fee) else None)) (- hold e) in
  match earns e with
  | None => (out, now)
  | Some g => (match plus now g with Some v => Z.max out v | None => out end, plus now g)
  end.

Definition best_path (fee : Z) (l : list event) : Z := fst (fold_left (advance fee) l (0, None)).

(* ---- the same as the checker computes it: from entry to entry, matrices, products in pairs -------------- *)

(* since: what being held has cost since the last entry; chance: since the latest boundary for entering. For
   each entry: what staying brings, and what coming brings.                                                  *)
Fixpoint legs (fee since : Z) (chance : option Z) (l : list event) : list (Z * option Z) :=
  match l with
  | [] => []
  | e :: rest =>
      let since := since + hold e in
      let chance := if may e then Some (hold e) else plus chance (hold e) in
      match earns e with
      | None => legs fee since chance rest
      | Some g =>
          (g - since, match chance with Some c => Some (g - (fee + c)) | None => None end)
          :: legs fee 0 None rest
      end
  end.

(* Named by the state before and after: out or in. *)
Record matrix := Matrix { oo : option Z; oi : option Z; io : option Z; ii : option Z }.
Definition of_leg (leg : Z * option Z) : matrix :=
  let (stay, come) := leg in Matrix (omax come (Some 0)) come (Some stay) (Some stay).
Definition mul (a b : matrix) : matrix :=
  Matrix (omax (oadd (oo a) (oo b)) (oadd (oi a) (io b)))
         (omax (oadd (oo a) (oi b)) (oadd (oi a) (ii b)))
         (omax (oadd (io a) (oo b)) (oadd (ii a) (io b)))
         (omax (oadd (io a) (oi b)) (oadd (ii a) (ii b))).
Fixpoint pairs (l : list matrix) : list matrix :=
  match l with a :: b :: rest => mul a b :: pairs rest | _ => l end.
Fixpoint tree (rounds : nat) (l : list matrix) : option matrix :=
  match l with
  | [] => None
  | [a] => Some a
  | _ => match rounds with O => None | S r => tree r (pairs l) end
  end.
Definition heaviest (fee : Z) (l : list event) : Z :=
  let entries := map of_leg (legs fee 0 None l) in
  match tree (length entries) entries with
  | Some m => match oo m with Some v => v | None => 0 end
  | None => 0
  end.

(* ---- what a step keeps, for coverage: checker.py _bound, kept ------------------------------------------- *)

Fixpoint place_down (x : Z) (l : list Z) : list Z :=
  match l with [] => [x] | y :: l' => if y <=? x then x :: l else y :: place_down x l' end.
Definition descending (l : list Z) : list Z := fold_right place_down [] l.

(* past: the steps whose arrivals may be held by now. *)
Definition reachable (s : setting) (past : list query) (i : nat) : bool :=
  negb (capacity s <? size s i) && existsb (fun y => may_enter s y i) past.

(* The coverage of the k best of them. *)
Definition ceiling (s : setting) (past : list query) (x : query) : Z :=
  coverage (full s)
    (firstn (top_k s) (descending (map quality (filter (fun e => reachable s past (item e)) (row x))))).

Definition keeps (s : setting) (mult : Z) (past : list query) (x : query) (p : tag) : Z :=
  if covers s then share_up (most s mult x - credit p) (ceiling s past x) (full s) else 0.

Fixpoint kept (s : setting) (mult : Z) (past : list query) (tr : list query) (ps : list tag) : Z :=
  match tr, ps with
  | x :: tr', p :: ps' =>
      keeps s mult (if serves_first s then past else x :: past) x p + kept s mult (x :: past) tr' ps'
  | _, _ => 0
  end.

(* ---- the bound ------------------------------------------------------------------------------------------ *)

Definition value (s : setting) (mult entry : Z) (tr : list query) (ps : list tag) (i : nat) : Z :=
  if capacity s <? size s i then 0
  else heaviest (size s i * entry) (events s mult i false tr ps).

Definition bound (s : setting) (mult entry : Z) (ps : list tag) (tr : list query) : Z :=
  let whole := Zsum (map weight tr) * (full s * mult) in
  let serves := Zsum (map serve ps) in
  let slots := Zsum (map slot ps) in
  let units := whole - kept s mult [] tr ps - Z.of_nat (top_k s) * serves - capacity s * slots
               - Zsum (map (value s mult entry tr ps) (seq 0 (n_items s))) in
  if free_fill s then units - capacity s * entry else units.

(* ---- the checker's path is the best path ---------------------------------------------------------------- *)

Lemma omax_none : forall a, omax a None = a.
Proof. destruct a; reflexivity. Qed.
Lemma omax_assoc : forall a b c, omax a (omax b c) = omax (omax a b) c.
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.max_assoc. Qed.
Lemma omax_comm : forall a b, omax a b = omax b a.
Proof. intros [x|] [y|]; cbn; try reflexivity. now rewrite Z.max_comm. Qed.
Lemma omax_swap : forall a b c d, omax (omax a b) (omax c d) = omax (omax a c) (omax b d).
Proof.
  intros. rewrite <- (omax_assoc a b), (omax_assoc b c), (omax_comm b c), <- (omax_assoc c b).
  apply omax_assoc.
Qed.
Lemma oadd_assoc : forall a b c, oadd a (oadd b c) = oadd (oadd a b) c.
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.add_assoc. Qed.
Lemma oadd_omax_l : forall a b c, oadd a (omax b c) = omax (oadd a b) (oadd a c).
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.add_max_distr_l. Qed.
Lemma oadd_omax_r : forall a b c, oadd (omax a b) c = omax (oadd a c) (oadd b c).
Proof. intros [x|] [y|] [z|]; cbn; try reflexivity. now rewrite Z.add_max_distr_r. Qed.

Lemma mul_assoc : forall a b c, mul a (mul b c) = mul (mul a b) c.
Proof.
  intros [a1 a2 a3 a4] [b1 b2 b3 b4] [c1 c2 c3 c4]. unfold mul. cbn [oo oi io ii].
  f_equal; rewrite !oadd_omax_l, !oadd_omax_r, !oadd_assoc; apply omax_swap.
Qed.

Definition product (a : matrix) (l : list matrix) : matrix := fold_left mul l a.

Lemma product_mul : forall l a b, product (mul a b) l = mul a (product b l).
Proof.
  induction l as [|c l IH]; intros a b; [reflexivity|]. cbn. unfold product in *.
  rewrite <- mul_assoc. apply IH.
Qed.

Lemma pairs_spec : forall n l a, (length l <= n)%nat ->
  exists b r, pairs (a :: l) = b :: r /\ product b r = product a l /\ (length r <= length l)%nat /\
    (l <> [] -> (length r < length l)%nat).
Proof.
  induction n as [|n IH]; intros l a H.
  - destruct l; [|cbn in H; lia]. exists a, []. repeat split; try reflexivity; try easy.
  - destruct l as [|b l]; [exists a, []; repeat split; try reflexivity; easy|].
    destruct l as [|c l].
    + exists (mul a b), []. repeat split; cbn; try lia. 
    + destruct (IH l c) as (d & r & E & P & L & _); [cbn in H; lia|].
      exists (mul a b), (d :: r). split; [cbn [pairs] in *; now rewrite <- E|].
      split; [|split; [|intros _]; cbn; lia].
      change (product (mul a b) (d :: r)) with (product (mul (mul a b) d) r).
      change (product a (b :: c :: l)) with (product (mul (mul a b) c) l).
      now rewrite !product_mul, P.
Qed.

Lemma tree_spec : forall n a l, (length l <= n)%nat -> tree n (a :: l) = Some (product a l).
Proof.
  induction n as [|n IH]; intros a l H.
  - destruct l; [reflexivity | cbn in H; lia].
  - destruct l as [|b l]; [reflexivity|].
    destruct (pairs_spec _ (b :: l) a (le_n _)) as (d & r & E & P & _ & L).
    change (tree (S n) (a :: b :: l)) with (tree n (pairs (a :: b :: l))). rewrite E, <- P. apply IH.
    specialize (L ltac:(easy)). cbn in L, H. lia.
Qed.

(* A row vector times a matrix. *)
Definition apply (v : option Z * option Z) (m : matrix) : option Z * option Z :=
  let (o, i) := v in (omax (oadd o (oo m)) (oadd i (io m)), omax (oadd o (oi m)) (oadd i (ii m))).

Lemma apply_mul : forall v a b, apply (apply v a) b = apply v (mul a b).
Proof.
  intros [o i] [a1 a2 a3 a4] [b1 b2 b3 b4]. unfold apply, mul. cbn [oo oi io ii].
  f_equal; rewrite !oadd_omax_l, !oadd_omax_r, !oadd_assoc; apply omax_swap.
Qed.

Lemma apply_product : forall l a v, fold_left apply l (apply v a) = apply v (product a l).
Proof.
  induction l as [|b l IH]; intros a v; [reflexivity|]. cbn. rewrite apply_mul, IH. reflexivity.
Qed.

Lemma plus_zero : forall a, plus a (- 0) = a.
Proof. intros [x|]; cbn; [f_equal; lia | reflexivity]. Qed.

(* From entry to entry = step by step. *)
Lemma legs_spec : forall fee l since chance out inn,
  Forall (fun e => 0 <= hold e) l -> (forall c, chance = Some c -> 0 <= c) ->
  fst (fold_left apply (map of_leg (legs fee since chance l)) (Some out, inn)) =
  Some (fst (fold_left (advance fee) l
    (out, omax (plus inn (- since)) (match chance with Some c => Some (out - fee - c) | None => None end)))).
Proof.
  intros fee l. induction l as [|e l IH]; intros since chance out inn F C; [reflexivity|].
  inversion F as [|? ? H F']; subst. cbn [legs fold_left advance].
  set (chance' := if may e then Some (hold e) else plus chance (hold e)).
  assert (C' : forall c, chance' = Some c -> 0 <= c).
  { unfold chance'. intros c. destruct (may e).
    - intros E. now injection E as <-.
    - destruct chance as [d|]; cbn; [|easy]. intros E. injection E as <-. specialize (C d eq_refl). lia. }
  assert (Now : plus (omax (omax (plus inn (- since))
                   (match chance with Some c => Some (out - fee - c) | None => None end))
                 (if may e then Some (out - fee) else None)) (- hold e)
          = omax (plus inn (- (since + hold e)))
              (match chance' with Some c => Some (out - fee - c) | None => None end)).
  { unfold chance', plus. destruct (may e), chance as [c|], inn as [v|]; cbn; try reflexivity; f_equal;
      try (specialize (C c eq_refl)); lia. }
  rewrite Now. destruct (earns e) as [g|].
  - cbn [map fold_left].
    assert (N : apply (Some out, inn) (of_leg (g - (since + hold e),
                  match chance' with Some c => Some (g - (fee + c)) | None => None end))
      = (Some (match plus (omax (plus inn (- (since + hold e)))
              (match chance' with Some c => Some (out - fee - c) | None => None end)) g
               with Some v => Z.max out v | None => out end),
         plus (omax (plus inn (- (since + hold e)))
              (match chance' with Some c => Some (out - fee - c) | None => None end)) g)).
    { unfold plus. destruct chance' as [c|], inn as [v|]; cbn [apply of_leg oo oi io ii omax oadd];
        f_equal; try (f_equal; lia). }
    rewrite N, IH; [|assumption|easy]. now rewrite omax_none, plus_zero.
  - apply IH; assumption.
Qed.

Theorem heaviest_is_best_path : forall fee l, Forall (fun e => 0 <= hold e) l ->
  heaviest fee l = best_path fee l.
Proof.
  intros fee l F. pose proof (legs_spec fee l 0 None 0 None F ltac:(easy)) as H. cbn [plus oadd omax] in H.
  unfold heaviest, best_path. destruct (map of_leg (legs fee 0 None l)) as [|a r].
  - cbn in H. injection H as H. cbn. exact H.
  - cbn [fold_left] in H. rewrite apply_product in H. rewrite tree_spec by (cbn; lia).
    unfold apply in H. cbn [fst oadd] in H. rewrite omax_none in H.
    destruct (oo (product a r)) as [v|]; [|easy]. cbn in H. injection H as H. exact H.
Qed.

(* ---- what an item earns in a schedule, and that the best path earns no less ------------------------------ *)

Definition count (i : nat) (l : list nat) : Z := Zsum (map (fun x => if Nat.eqb i x then 1 else 0) l).

Definition worth (s : setting) (mult : Z) (x : query) (p : tag) (i : nat) : Z :=
  match gain s mult x p i with Some g => g | None => 0 end.

Definition at_step (s : setting) (mult : Z) (x : query) (p : tag) (cache : list nat) (i : nat) : Z :=
  if mem i cache then worth s mult x p i - size s i * slot p else 0.

Fixpoint earned (s : setting) (mult entry : Z) (i : nat) (cache : list nat)
  (tr : list query) (ps : list tag) (sch : list change) : Z :=
  match tr, ps, sch with
  | x :: tr', p :: ps', c :: sch' =>
      match update s x c cache with
      | None => 0
      | Some held =>
          at_step s mult x p (if serves_first s then cache else held) i
          - size s i * entry * count i (enters c) + earned s mult entry i held tr' ps' sch'
      end
  | _, _, _ => 0
  end.

Definition proper (ps : list tag) : Prop := Forall (fun p => 0 <= slot p /\ 0 <= serve p) ps.

Lemma worth_nonneg : forall s mult x p i, 0 <= worth s mult x p i.
Proof.
  intros. unfold worth, gain. destruct (0 <? weight x); [|lia].
  destruct (find _ (row x)); lia.
Qed.

Lemma count_nonneg : forall i l, 0 <= count i l.
Proof.
  intros. apply Zsum_nonneg, Forall_forall. intros z I. apply in_map_iff in I. destruct I as (x & <- & _).
  destruct (Nat.eqb i x); lia.
Qed.

Lemma count_in : forall i l, In i l -> 1 <= count i l.
Proof.
  induction l as [|x l IH]; intros I; [easy|]. unfold count in *. cbn [map Zsum].
  pose proof (count_nonneg i l) as P. unfold count in P.
  destruct I as [->|I]; [rewrite Nat.eqb_refl; lia|]. specialize (IH I). destruct (Nat.eqb i x); lia.
Qed.

Lemma enter_new : forall s x xs cache held i, enter s x xs cache = Some held -> In i held ->
  In i cache \/ (In i xs /\ may_enter s x i = true).
Proof.
  induction xs as [|y xs IH]; intros cache held i E I.
  - cbn in E. injection E as <-. now left.
  - apply enter_cons in E. destruct E as (_ & _ & M & _ & E). destruct (IH _ _ _ E I) as [J|[J K]].
    + apply in_app_iff in J. cbn in J. destruct J as [J|[<-|[]]]; [now left | right; split; [now left | assumption]].
    + right. split; [now right | assumption].
Qed.

Lemma leave_old : forall xs cache held i, leave xs cache = Some held -> In i held -> In i cache.
Proof.
  induction xs as [|x xs IH]; cbn; intros cache held i E I.
  - now injection E as <-.
  - destruct (mem x cache); [|easy]. apply drop_incl with x. now apply (IH _ _ _ E).
Qed.

Lemma update_new : forall s x c cache held i, update s x c cache = Some held -> mem i held = true ->
  mem i cache = true \/ (1 <= count i (enters c) /\ may_enter s x i = true).
Proof.
  intros s x c cache held i E I. unfold update in E. destruct (leave (leaves c) cache) as [rest|] eqn:L; [|easy].
  apply mem_In in I. destruct (enter_new _ _ _ _ _ _ E I) as [J|[J K]].
  - left. apply mem_In. now apply (leave_old _ _ _ _ L).
  - right. split; [now apply count_in | assumption].
Qed.

(* v is at most a value that may be impossible. *)
Definition below (v : Z) (o : option Z) : Prop := match o with Some w => v <= w | None => False end.
Definition tidy (out : Z) (now : option Z) : Prop := match now with Some n => n <= out | None => True end.

Lemma below_omax : forall v a b, below v (omax a b) <-> below v a \/ below v b.
Proof. intros v [x|] [y|]; cbn; lia. Qed.

(* One step of the automaton against one step of any schedule: v is what the schedule has earned so far. *)
Lemma advance_step : forall fee e out now (b : bool) v, 0 <= fee -> 0 <= hold e ->
  (forall g, earns e = Some g -> 0 <= g) -> tidy out now -> v <= out ->
  (b = true -> below v (omax now (if may e then Some (out - fee) else None))) ->
  let w := v + if b then (match earns e with Some g => g | None => 0 end) - hold e else 0 in
  let (out', now') := advance fee (out, now) e in
  tidy out' now' /\ w <= out' /\ (b = true -> below w now').
Proof.
  intros fee e out now b v Hf Hh Hg T V B. cbn [advance].
  set (here := omax now (if may e then Some (out - fee) else None)) in *.
  assert (T' : tidy out here).
  { unfold here. destruct now as [n|], (may e); cbn in *; lia. }
  clearbody here. destruct (earns e) as [g|].
  - specialize (Hg g eq_refl). destruct here as [n|]; cbn in *; destruct b; try specialize (B eq_refl); cbn in *;
      repeat split; try easy; lia.
  - destruct here as [n|]; cbn in *; destruct b; try specialize (B eq_refl); cbn in *; repeat split; try easy; lia.
Qed.

Lemma path_bound : forall s mult entry i tr ps sch cache ready out now v m z last,
  valid_setting s -> 0 <= entry -> proper ps -> length ps = length tr ->
  run s cache tr sch = Some (m, z, last) -> tidy out now -> v <= out ->
  (mem i cache = true ->
   below v (omax now (if serves_first s && ready then Some (out - size s i * entry) else None))) ->
  v + earned s mult entry i cache tr ps sch
  <= fst (fold_left (advance (size s i * entry)) (events s mult i ready tr ps) (out, now)).
Proof.
  intros s mult entry i. induction tr as [|x tr IH];
    intros ps sch cache ready out now v m z last V He P L R T Hv B.
  - destruct ps; [|easy]. cbn. lia.
  - destruct ps as [|p ps]; [easy|]. destruct sch as [|c sch]; [easy|]. cbn [run] in R.
    inversion P as [|? ? [P1 P2] P']; subst. cbn [length] in L. injection L as L.
    destruct (update s x c cache) as [held|] eqn:U; [|easy].
    destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy].
    cbn [earned events fold_left]. rewrite U.
    pose proof (size_nonneg s i V) as Sz. pose proof (count_nonneg i (enters c)) as Cn.
    set (fee := size s i * entry) in *. assert (Hf : 0 <= fee) by (unfold fee; nia).
    assert (Hh : 0 <= size s i * slot p) by nia.
    assert (Hg : forall g, gain s mult x p i = Some g -> 0 <= g).
    { intros g G. pose proof (worth_nonneg s mult x p i) as W. unfold worth in W. now rewrite G in W. }
    pose proof (update_new _ _ _ _ _ i U) as New. unfold at_step, worth.
    assert (Fc : 0 <= fee * count i (enters c)) by nia.
    set (e := Event (if serves_first s then ready else may_enter s x i) (size s i * slot p) (gain s mult x p i)).
    destruct (serves_first s) eqn:SF.
    + (* served by the cache before the update *)
      pose proof (advance_step fee e out now (mem i cache) v Hf Hh Hg T Hv B) as A.
      destruct (advance fee (out, now) e) as [out' now'] eqn:Ad. cbn [e hold earns] in A.
      destruct A as (T' & V' & B').
      set (w := v + (if mem i cache then match gain s mult x p i with Some g => g | None => 0 end
                     - size s i * slot p else 0)) in *.
      specialize (IH ps sch held (may_enter s x i) out' now' (w - fee * count i (enters c)) m' z' last'
                    V He P' L R' T' ltac:(lia)).
      cbn [andb] in IH. fold fee in IH.
      eapply Z.le_trans; [|apply IH].
      * unfold w. destruct (mem i cache); lia.
      * intros Mh. destruct (New Mh) as [Mc|[C1 My]]; apply below_omax.
        -- left. specialize (B' Mc). destruct now'; cbn in *; lia.
        -- right. rewrite My. cbn. nia.
    + (* served by the cache after the update *)
      cbn [andb] in B. rewrite omax_none in B.
      assert (B1 : mem i held = true ->
                   below (v - fee * count i (enters c)) (omax now (if may e then Some (out - fee) else None))).
      { intros Mh. apply below_omax. destruct (New Mh) as [Mc|[C1 My]].
        - left. specialize (B Mc). destruct now; cbn in *; lia.
        - right. cbn [e may]. rewrite My. cbn. nia. }
      pose proof (advance_step fee e out now (mem i held) (v - fee * count i (enters c))
                    Hf Hh Hg T ltac:(lia) B1) as A.
      destruct (advance fee (out, now) e) as [out' now'] eqn:Ad. cbn [e hold earns] in A.
      destruct A as (T' & V' & B').
      set (w := v - fee * count i (enters c)
                + (if mem i held then match gain s mult x p i with Some g => g | None => 0 end
                   - size s i * slot p else 0)) in *.
      specialize (IH ps sch held (may_enter s x i) out' now' w m' z' last' V He P' L R' T' V').
      cbn [andb] in IH. rewrite omax_none in IH. fold fee in IH.
      eapply Z.le_trans; [|now apply IH]. unfold w. destruct (mem i held); lia.
Qed.

(* An item larger than the cache is never held. *)
Lemma too_large : forall s cache i, valid_setting s -> sound s cache -> capacity s < size s i ->
  mem i cache = false.
Proof.
  intros s cache i V (_ & _ & U) H. apply mem_false. intros I.
  rewrite (used_perm s cache (i :: drop i cache) (drop_perm i cache I)) in U. unfold used in U. cbn [map Zsum] in U.
  assert (0 <= Zsum (map (size s) (drop i cache))).
  { apply Zsum_nonneg, Forall_forall. intros z J. apply in_map_iff in J. destruct J as (j & <- & _).
    now apply size_nonneg. }
  lia.
Qed.

Lemma nothing_earned : forall s mult entry i tr ps sch cache m z last, valid_setting s -> 0 <= entry ->
  sound s cache -> capacity s < size s i -> run s cache tr sch = Some (m, z, last) ->
  earned s mult entry i cache tr ps sch <= 0.
Proof.
  intros s mult entry i. induction tr as [|x tr IH]; intros ps sch cache m z last V He S H R; [cbn; lia|].
  destruct ps as [|p ps]; [cbn; lia|]. destruct sch as [|c sch]; [cbn; lia|]. cbn [run] in R. cbn [earned].
  destruct (update s x c cache) as [held|] eqn:U; [|lia].
  destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy].
  destruct (update_sound _ _ _ _ _ V S U) as [S' _].
  specialize (IH ps sch held m' z' last' V He S' H R'). unfold at_step.
  rewrite (too_large s _ i V) by (try assumption; now destruct (serves_first s)).
  pose proof (size_nonneg s i V). pose proof (count_nonneg i (enters c)).
  assert (0 <= size s i * entry * count i (enters c)) by (apply Z.mul_nonneg_nonneg; nia). lia.
Qed.

Lemma events_hold : forall s mult i tr ps ready, valid_setting s -> proper ps ->
  Forall (fun e => 0 <= hold e) (events s mult i ready tr ps).
Proof.
  intros s mult i. induction tr as [|x tr IH]; intros [|p ps] ready V P; cbn [events]; constructor.
  - inversion P as [|? ? [A _] _]; subst. cbn. pose proof (size_nonneg s i V). nia.
  - inversion P; subst. now apply IH.
Qed.

Theorem value_bounds_item : forall s mult entry i tr ps sch m z last,
  valid_setting s -> 0 <= entry -> proper ps -> length ps = length tr ->
  run s [] tr sch = Some (m, z, last) ->
  earned s mult entry i [] tr ps sch <= value s mult entry tr ps i.
Proof.
  intros s mult entry i tr ps sch m z last V He P L R. unfold value.
  destruct (Z.ltb_spec (capacity s) (size s i)) as [H|H].
  - now apply (nothing_earned s mult entry i tr ps sch [] m z last V He (sound_nil s V)).
  - rewrite heaviest_is_best_path by now apply events_hold. unfold best_path.
    apply (path_bound s mult entry i tr ps sch [] false 0 None 0 m z last); try assumption; cbn; try easy; lia.
Qed.

(* ---- the cost of a schedule against what its items earn --------------------------------------------------- *)

Lemma Zsum_add : forall (f g : nat -> Z) l,
  Zsum (map (fun i => f i + g i) l) = Zsum (map f l) + Zsum (map g l).
Proof. induction l as [|x l IH]; cbn [map Zsum]; lia. Qed.

Lemma Zsum_scale : forall (f : nat -> Z) k l, Zsum (map (fun i => k * f i) l) = k * Zsum (map f l).
Proof. induction l as [|x l IH]; cbn [map Zsum]; lia. Qed.

Lemma Zsum_ext : forall (f g : nat -> Z) l, (forall i, In i l -> f i = g i) ->
  Zsum (map f l) = Zsum (map g l).
Proof. intros f g l H. f_equal. now apply map_ext_in. Qed.

Lemma Zsum_le : forall (f g : nat -> Z) l, (forall i, In i l -> f i <= g i) ->
  Zsum (map f l) <= Zsum (map g l).
Proof.
  induction l as [|x l IH]; intros H; cbn [map Zsum]; [lia|]. pose proof (H x (or_introl eq_refl)).
  specialize (IH (fun i I => H i (or_intror I))). lia.
Qed.

Lemma Zsum_at : forall (f : nat -> Z) x n, (x < n)%nat ->
  Zsum (map (fun i => f i * if Nat.eqb i x then 1 else 0) (seq 0 n)) = f x.
Proof.
  intros f x n. induction n as [|n IH]; intros H; [lia|]. rewrite seq_S, map_app, Zsum_app. cbn [map Zsum Nat.add].
  destruct (Nat.eqb_spec n x) as [->|D].
  - rewrite (Zsum_ext _ (fun _ => 0 * 0)).
    + rewrite Zsum_scale. lia.
    + intros i I. apply in_seq in I. destruct (Nat.eqb_spec i x); lia.
  - rewrite IH by lia. lia.
Qed.

(* A sum over the members of a list = a sum over all items, each as often as it occurs. *)
Lemma Zsum_count : forall (f : nat -> Z) n l, Forall (fun x => (x < n)%nat) l ->
  Zsum (map (fun i => f i * count i l) (seq 0 n)) = Zsum (map f l).
Proof.
  intros f n l F. induction F as [|x l H F IH].
  - rewrite (Zsum_ext _ (fun i => 0 * f i)).
    + rewrite Zsum_scale. reflexivity.
    + intros i _. unfold count. cbn. lia.
  - cbn [map Zsum]. rewrite <- IH, <- (Zsum_at f x n H), <- Zsum_add. apply Zsum_ext. intros i _.
    unfold count. cbn [map Zsum]. lia.
Qed.

Lemma count_mem : forall i l, NoDup l -> count i l = if mem i l then 1 else 0.
Proof.
  intros i l N. induction N as [|x l H N IH]; [reflexivity|]. unfold count in *. cbn [map Zsum]. rewrite IH.
  unfold mem in *. cbn [existsb]. destruct (Nat.eqb_spec i x) as [->|D]; cbn [orb]; [|lia].
  fold (mem x l). apply mem_false in H. now rewrite H.
Qed.

Lemma find_entry : forall l e, NoDup (map item l) -> In e l ->
  find (fun f => Nat.eqb (item f) (item e)) l = Some e.
Proof.
  induction l as [|f l IH]; intros e N I; [easy|]. inversion N as [|? ? H N']; subst. cbn [find].
  destruct I as [->|I]; [now rewrite Nat.eqb_refl|]. destruct (Nat.eqb_spec (item f) (item e)) as [E|D].
  - exfalso. apply H. rewrite E. now apply in_map.
  - now apply IH.
Qed.

(* ---- coverage: at most the sum of the qualities, and at most that of the k best -------------------------- *)

Lemma lost_cons : forall u x l, lost u (x :: l) = (u - x) * lost u l.
Proof. reflexivity. Qed.

Lemma lost_perm : forall u a b, Permutation a b -> lost u a = lost u b.
Proof.
  intros u a b P. induction P as [|x a b P IH|x y a|a b c P IH Q IH']; rewrite ?lost_cons.
  - reflexivity.
  - now rewrite IH.
  - ring.
  - now rewrite IH.
Qed.

Definition fair (u : Z) (l : list Z) : Prop := Forall (fun x => 0 <= x <= u) l.

Lemma pow_next : forall (u : Z) (l : list Z) (x : Z), u ^ Z.of_nat (length (x :: l)) = u * u ^ Z.of_nat (length l).
Proof. intros. cbn [length]. rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. reflexivity. Qed.

Lemma lost_sum : forall u l, 0 < u -> fair u l ->
  (u - Zsum l) * u ^ Z.of_nat (length l) <= u * lost u l.
Proof.
  intros u l U F. induction F as [|x l H F IH]; [cbn; lia|].
  rewrite pow_next, lost_cons. cbn [Zsum]. pose proof (lost_bounds u l F) as B.
  set (n := u ^ Z.of_nat (length l)) in *. set (a := lost u l) in *. set (t := Zsum l) in *. clearbody n a t.
  assert (u * ((u - t) * n) <= u * (u * a)) by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (x * u * a <= x * u * n) by (apply Z.mul_le_mono_nonneg_l; [apply Z.mul_nonneg_nonneg|]; lia).
  lia.
Qed.

Lemma coverage_sum : forall u l, 0 < u -> fair u l -> coverage u l <= Zsum l.
Proof.
  intros u l U F. destruct l as [|x l]; [cbn; lia|]. pose proof (lost_sum u _ U F) as L.
  rewrite pow_next in L. unfold coverage.
  assert (P : 0 < u ^ Z.of_nat (length l)) by (apply Z.pow_pos_nonneg; lia).
  set (n := u ^ Z.of_nat (length l)) in *. set (a := lost u (x :: l)) in *. set (t := Zsum (x :: l)) in *.
  assert (- a / n <= t - u); [|lia]. apply Z.div_le_upper_bound; [assumption|].
  assert (u * ((u - t) * n) <= u * a) by lia. nia.
Qed.

(* Comparing two coverages is comparing the products, each over its own power of the unit. *)
Lemma coverage_le : forall u a b, 0 < u -> fair u a -> fair u b ->
  lost u b * u ^ Z.of_nat (length a) <= lost u a * u ^ Z.of_nat (length b) -> coverage u a <= coverage u b.
Proof.
  intros u a b U Fa Fb H. pose proof (coverage_bounds u b ltac:(lia) Fb) as Cb.
  destruct a as [|x a]; [cbn; lia|]. rewrite pow_next in H. unfold coverage at 1.
  assert (Pa : 0 < u ^ Z.of_nat (length a)) by (apply Z.pow_pos_nonneg; lia).
  set (n := u ^ Z.of_nat (length a)) in *. set (la := lost u (x :: a)) in *.
  destruct b as [|y b].
  - cbn [coverage]. change (lost u []) with 1 in H. cbn [length] in H. change (Z.of_nat 0) with 0 in H.
    rewrite Z.pow_0_r in H. assert (- la / n <= - u); [|lia]. apply Z.div_le_upper_bound; [assumption|]. lia.
  - rewrite pow_next in H. unfold coverage.
    assert (Pb : 0 < u ^ Z.of_nat (length b)) by (apply Z.pow_pos_nonneg; lia).
    set (m := u ^ Z.of_nat (length b)) in *. set (lb := lost u (y :: b)) in *. clearbody n m la lb.
    assert (H' : lb * n <= la * m) by nia.
    assert (- la / n <= - lb / m); [|lia]. apply Z.div_le_lower_bound; [assumption|].
    pose proof (Z.mul_div_le (- la) n Pa) as D. set (d := - la / n) in *. clearbody d. nia.
Qed.

Inductive downwards : list Z -> Prop :=
| down_nil : downwards []
| down_cons : forall x l, (forall y, In y l -> y <= x) -> downwards l -> downwards (x :: l).

Lemma place_down_perm : forall x l, Permutation (place_down x l) (x :: l).
Proof.
  induction l as [|y l IH]; cbn; [reflexivity|]. destruct (y <=? x); [reflexivity|].
  rewrite IH. apply perm_swap.
Qed.

Lemma place_down_sorted : forall x l, downwards l -> downwards (place_down x l).
Proof.
  intros x l D. induction D as [|y l H D IH]; cbn [place_down].
  - constructor; [easy | constructor].
  - destruct (Z.leb_spec y x) as [L|L].
    + constructor; [|now constructor]. intros z [<-|I]; [assumption|]. specialize (H z I). lia.
    + constructor; [|assumption]. intros z I. apply (Permutation_in z (place_down_perm x l)) in I.
      destruct I as [<-|I]; [lia | now apply H].
Qed.

Lemma descending_spec : forall l, Permutation (descending l) l /\ downwards (descending l).
Proof.
  induction l as [|x l [P D]]; cbn [descending fold_right]; [split; [reflexivity | constructor]|].
  fold (descending l). split; [rewrite place_down_perm; now constructor | now apply place_down_sorted].
Qed.

(* No choice of at most k loses less than the first k of a descending list. *)
Lemma first_k_lose_least : forall u k l chosen rest, 0 < u -> downwards l -> fair u l ->
  Permutation (chosen ++ rest) l -> (length chosen <= k)%nat ->
  lost u (firstn k l) * u ^ Z.of_nat (length chosen) <= lost u chosen * u ^ Z.of_nat (length (firstn k l)).
Proof.
  intros u. induction k as [|k IH]; intros l chosen rest U D F P L.
  - destruct chosen; [reflexivity | cbn in L; lia].
  - destruct chosen as [|y chosen].
    + assert (Fk : fair u (firstn (S k) l)).
      { unfold fair in *. rewrite Forall_forall in *. intros z I. apply F.
        rewrite <- (firstn_skipn (S k) l). apply in_app_iff. now left. }
      pose proof (lost_bounds u _ Fk) as B. change (lost u []) with 1. cbn [length].
      change (Z.of_nat 0) with 0. rewrite Z.pow_0_r. lia.
    + destruct l as [|r l]; [apply Permutation_length in P; cbn in P; lia|].
      inversion D as [|? ? R D']; subst. inversion F as [|? ? Fr F']; subst. cbn [firstn].
      assert (Pick : exists c rest', Permutation (y :: chosen) (c :: rest') /\ c <= r /\ 0 <= c /\
                       exists left, Permutation (rest' ++ left) l).
      { destruct (in_dec Z.eq_dec r (y :: chosen)) as [I|I].
        - apply in_split in I. destruct I as (a & b & E). exists r, (a ++ b).
          split; [rewrite E; symmetry; apply Permutation_middle|]. split; [lia|]. split; [lia|]. exists rest.
          apply Permutation_cons_inv with r. rewrite <- P, E. rewrite <- !app_assoc. cbn [app].
          apply Permutation_middle.
        - assert (J : In r ((y :: chosen) ++ rest)) by (apply Permutation_in with (r :: l); [now symmetry | now left]).
          apply in_app_iff in J. destruct J as [J|J]; [contradiction|].
          apply in_split in J. destruct J as (a & b & ->). exists y, chosen.
          assert (Iy : In y (r :: l)) by (apply Permutation_in with (1 := P); now left).
          split; [reflexivity|].
          assert (0 <= y <= u) by (unfold fair in F; rewrite Forall_forall in F; now apply F).
          split; [destruct Iy as [->|Iy]; [lia | now apply R]|]. split; [lia|]. exists (y :: a ++ b).
          apply Permutation_cons_inv with r. rewrite <- P. cbn [app].
          transitivity (r :: y :: chosen ++ a ++ b).
          + constructor. symmetry. apply Permutation_middle.
          + transitivity (y :: r :: (chosen ++ a) ++ b); [rewrite app_assoc; apply perm_swap|]. constructor.
            rewrite (app_assoc chosen a (r :: b)). apply Permutation_middle. }
      destruct Pick as (c & rest' & Pc & C1 & C2 & left & Pl).
      assert (Lr : length (y :: chosen) = length (c :: rest')) by now apply Permutation_length.
      rewrite (lost_perm u _ _ Pc), Lr, !pow_next, !lost_cons.
      specialize (IH l rest' left U D' F' Pl ltac:(cbn in L, Lr; lia)).
      assert (B0 : 0 <= lost u (firstn k l)).
      { apply lost_bounds. rewrite Forall_forall in *. intros z I. apply F'.
        rewrite <- (firstn_skipn k l). apply in_app_iff. now left. }
      set (A := lost u (firstn k l)) in *. set (B := lost u rest') in *.
      assert (0 < u ^ Z.of_nat (length rest')) by (apply Z.pow_pos_nonneg; lia).
      set (a := u ^ Z.of_nat (length rest')) in *. set (b := u ^ Z.of_nat (length (firstn k l))) in *.
      clearbody A B a b.
      apply Z.le_trans with ((u - c) * A * (u * a)).
      * assert (0 <= A * (u * a)) by (apply Z.mul_nonneg_nonneg; nia). nia.
      * assert (0 <= (u - c) * u) by nia. nia.
Qed.

(* Different entries of a row whose items are all reachable cover at most what the k best cover. *)
Lemma coverage_ceiling : forall s past x l, 0 < full s -> covers s = true -> valid_query s x ->
  (length l <= top_k s)%nat -> NoDup (map item l) ->
  (forall e, In e l -> In e (row x) /\ reachable s past (item e) = true) ->
  coverage (full s) (map quality l) <= ceiling s past x.
Proof.
  intros s past x l U Cv (_ & N & F & _) L ND I. rewrite Cv in F. unfold ceiling.
  set (all := filter (fun e => reachable s past (item e)) (row x)).
  destruct (descending_spec (map quality all)) as [P D].
  assert (Fr : forall m, (forall e, In e m -> In e (row x)) -> fair (full s) (map quality m)).
  { intros m M. apply Forall_forall. intros z J. apply in_map_iff in J. destruct J as (e & <- & J).
    rewrite Forall_forall in F. apply M, F in J. tauto. }
  assert (Fa : fair (full s) (descending (map quality all))).
  { unfold fair. rewrite P. apply Fr. intros e J. now apply filter_In in J. }
  assert (Rest : exists rest, Permutation (l ++ rest) all).
  { assert (NDl : NoDup l) by now apply NoDup_map_inv in ND.
    assert (Sub : incl l all) by (intros e J; apply filter_In; now apply I).
    clearbody all. clear - NDl Sub. revert all Sub. induction NDl as [|e l H NDl IH]; intros all Sub; [now exists all|].
    assert (J : In e all) by (apply Sub; now left). apply in_split in J. destruct J as (a & b & ->).
    destruct (IH (a ++ b)) as [rest R].
    { intros f K. specialize (Sub f (or_intror K)). apply in_app_iff in Sub. apply in_app_iff.
      destruct Sub as [Sub|[->|Sub]]; [now left | contradiction | now right]. }
    exists rest. cbn [app]. rewrite R. apply Permutation_middle. }
  destruct Rest as [rest R].
  apply coverage_le; [assumption| | |].
  - apply Fr. intros e J. now apply I.
  - unfold fair in *. rewrite Forall_forall in *. intros z J. apply Fa.
    rewrite <- (firstn_skipn (top_k s) (descending (map quality all))). apply in_app_iff. now left.
  - apply first_k_lose_least with (map quality rest); try assumption.
    + rewrite <- map_app, P. now apply Permutation_map.
    + now rewrite map_length.
Qed.

Lemma share_up_spec : forall a b u, 0 < u -> a * b <= u * share_up a b u.
Proof. intros a b u U. unfold share_up. pose proof (Z.mul_div_le (- (a * b)) u U). lia. Qed.

(* Whatever is retrieved serves at most what its items earn and what the step keeps. *)
Lemma utility_split : forall s mult x p past cache,
  valid_query s x -> 0 <= mult -> (covers s = true -> 0 < full s /\ 0 <= credit p <= most s mult x) ->
  (forall i, In i cache -> reachable s past i = true) ->
  mult * (weight x * utility s x cache)
  <= Zsum (map (reward s mult x p) (retrieved s x cache)) + keeps s mult past x p.
Proof.
  intros s mult x p past cache V Hm C Re. pose proof V as (W & N & F & _).
  destruct (retrieved_ok s x cache N) as (L & ND & In_R). unfold utility, reward, keeps, most in *.
  destruct (covers s) eqn:Cv.
  - destruct (C eq_refl) as [U [C1 C2]]. set (l := retrieved s x cache) in *.
    assert (A : coverage (full s) (map quality l) <= ceiling s past x).
    { apply coverage_ceiling; try assumption. intros e I. destruct (In_R e I). split; [assumption | now apply Re]. }
    assert (B : coverage (full s) (map quality l) <= Zsum (map quality l)).
    { apply coverage_sum; [assumption|]. apply Forall_forall. intros z J. apply in_map_iff in J.
      destruct J as (e & <- & J). apply In_R in J. rewrite Forall_forall in F. destruct J as [J _].
      apply F in J. tauto. }
    assert (E : credit p * Zsum (map quality l)
                <= full s * Zsum (map (fun e => share_up (credit p) (quality e) (full s)) l)).
    { clear A B. induction l as [|e l IH]; cbn [map Zsum]; [lia|].
      pose proof (share_up_spec (credit p) (quality e) (full s) U).
      assert (credit p * Zsum (map quality l)
              <= full s * Zsum (map (fun e => share_up (credit p) (quality e) (full s)) l)).
      { clear - U. induction l as [|f l IH]; cbn [map Zsum]; [lia|].
        pose proof (share_up_spec (credit p) (quality f) (full s) U). lia. }
      lia. }
    pose proof (share_up_spec (weight x * (full s * mult) - credit p) (ceiling s past x) (full s) U) as G.
    set (u := coverage (full s) (map quality l)) in *. set (c := ceiling s past x) in *.
    set (rw := Zsum (map (fun e => share_up (credit p) (quality e) (full s)) l)) in *.
    set (kp := share_up (weight x * (full s * mult) - credit p) c (full s)) in *.
    set (su := Zsum (map quality l)) in *. clearbody u c rw kp su.
    assert (credit p * u <= credit p * su) by nia.
    assert ((weight x * (full s * mult) - credit p) * u <= (weight x * (full s * mult) - credit p) * c) by nia.
    assert (full s * (mult * (weight x * u)) <= full s * (rw + kp)) by lia. nia.
  - generalize (retrieved s x cache). clear. induction l as [|e l IH]; cbn [map Zsum]; [lia|]. lia.
Qed.

(* One step: what its miss costs, for any cache that verify lets stand. *)
Definition honest (s : setting) (mult : Z) (x : query) (p : tag) : Prop :=
  covers s = true -> 0 < full s /\ 0 <= credit p <= most s mult x.

Lemma step_bound : forall s mult x p past cache,
  valid_setting s -> valid_query s x -> 0 <= mult -> honest s mult x p ->
  0 <= slot p -> 0 <= serve p -> sound s cache ->
  (forall i, In i cache -> existsb (fun y => may_enter s y i) past = true) ->
  weight x * (full s * mult) - keeps s mult past x p - Z.of_nat (top_k s) * serve p - capacity s * slot p
    - Zsum (map (at_step s mult x p cache) (seq 0 (n_items s)))
  <= mult * miss s x cache.
Proof.
  intros s mult x p past cache V VQ Hm Ho Hs Ha So Past. pose proof So as (ND & FI & U).
  pose proof VQ as (W & N & _ & _).
  assert (E : Zsum (map (at_step s mult x p cache) (seq 0 (n_items s)))
              = Zsum (map (worth s mult x p) cache) - slot p * used s cache).
  { rewrite (Zsum_ext _ (fun i => (worth s mult x p i - size s i * slot p) * count i cache)).
    - rewrite Zsum_count by assumption. unfold used. clear.
      induction cache as [|i l IH]; cbn [map Zsum]; [lia|]. rewrite IH. ring.
    - intros i _. rewrite count_mem by assumption. unfold at_step. destruct (mem i cache); lia. }
  rewrite E. destruct (retrieved_ok s x cache N) as (L & NR & In_R).
  assert (G : Zsum (map (worth s mult x p) (map item (retrieved s x cache)))
              <= Zsum (map (worth s mult x p) cache)).
  { apply Zsum_incl; [assumption| |].
    - intros i I. apply in_map_iff in I. destruct I as (e & <- & I). now apply In_R.
    - intros i _. apply worth_nonneg. }
  assert (H : Zsum (map (reward s mult x p) (retrieved s x cache))
              - Z.of_nat (length (retrieved s x cache)) * serve p
              <= Zsum (map (worth s mult x p) (map item (retrieved s x cache)))).
  { assert (All : forall e, In e (retrieved s x cache) ->
      reward s mult x p e - serve p <= worth s mult x p (item e)).
    { intros e I. destruct (In_R e I) as [R _]. unfold worth, gain.
      rewrite (find_entry (row x) e N R). destruct (Z.ltb_spec 0 (weight x)).
      - pose proof (Z.le_max_r 0 (reward s mult x p e - serve p)). lia.
      - assert (W0 : weight x = 0) by lia. unfold reward, honest, most in *. rewrite W0 in *.
        destruct (covers s); [|lia]. destruct (Ho eq_refl) as [_ C]. replace (credit p) with 0 by lia.
        unfold share_up. rewrite Z.mul_0_l. change (- (0 / full s)) with (- (0 / full s)).
        rewrite Z.opp_0, Zdiv_0_l. lia. }
    revert All. generalize (retrieved s x cache). clear.
    induction l as [|e l IH]; intros All; cbn [map Zsum length]; [lia|].
    pose proof (All e (or_introl eq_refl)). specialize (IH (fun f I => All f (or_intror I))).
    rewrite Nat2Z.inj_succ. lia. }
  assert (Z.of_nat (length (retrieved s x cache)) * serve p <= Z.of_nat (top_k s) * serve p) by nia.
  assert (slot p * used s cache <= slot p * capacity s) by nia.
  assert (Re : forall i, In i cache -> reachable s past i = true).
  { intros i I. unfold reachable. rewrite (Past i I), andb_true_r. apply negb_true_iff, Z.ltb_ge.
    destruct (Z.le_gt_cases (size s i) (capacity s)) as [G'|G']; [assumption|].
    pose proof (too_large s cache i V So ltac:(lia)) as M. apply mem_false in M. contradiction. }
  pose proof (utility_split s mult x p past cache VQ Hm Ho Re) as Sp.
  unfold miss. lia.
Qed.

Lemma enters_in_range : forall s x xs cache held, enter s x xs cache = Some held ->
  Forall (fun i => (i < n_items s)%nat) xs.
Proof.
  induction xs as [|y xs IH]; intros cache held E; constructor; apply enter_cons in E; [tauto|].
  destruct E as (_ & _ & _ & _ & E). now apply (IH _ _ E).
Qed.

Lemma schedule_bound : forall s mult entry tr ps sch past cache m z last,
  valid_setting s -> valid_trace s tr -> 0 <= mult -> 0 <= entry -> proper ps -> Forall2 (honest s mult) tr ps ->
  sound s cache -> (forall i, In i cache -> existsb (fun y => may_enter s y i) past = true) ->
  run s cache tr sch = Some (m, z, last) ->
  Zsum (map weight tr) * (full s * mult) - kept s mult past tr ps - Z.of_nat (top_k s) * Zsum (map serve ps)
    - capacity s * Zsum (map slot ps)
    - Zsum (map (fun i => earned s mult entry i cache tr ps sch) (seq 0 (n_items s)))
  <= mult * m + entry * z.
Proof.
  intros s mult entry. induction tr as [|x tr IH];
    intros ps sch past cache m z last V T Hm He P Ho S Past R; inversion Ho as [|? p ? ps' Hx Ho']; subst.
  - destruct sch; [|easy]. cbn [run] in R. injection R as <- <- <-.
    rewrite (Zsum_ext _ (fun i => 0 * 0)) by reflexivity. rewrite Zsum_scale. cbn [map Zsum kept]. lia.
  - destruct sch as [|c sch]; [easy|]. cbn [run] in R. rename ps' into ps.
    inversion P as [|? ? [P1 P2] P']; subst. inversion T as [|? ? Q T']; subst.
    destruct (update s x c cache) as [held|] eqn:U; [|easy].
    destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy]. injection R as <- <- <-.
    destruct (update_sound _ _ _ _ _ V S U) as [S' In'].
    assert (Past' : forall i, In i held -> existsb (fun y => may_enter s y i) (x :: past) = true).
    { intros i I. cbn [existsb]. destruct (In' i I) as [J|J]; [rewrite (Past i J); apply orb_true_r | now rewrite J]. }
    specialize (IH ps sch (x :: past) held m' z' last' V T' Hm He P' Ho' S' Past' R').
    set (now := if serves_first s then cache else held).
    set (before := if serves_first s then past else x :: past).
    assert (SN : sound s now) by (unfold now; now destruct (serves_first s)).
    assert (PN : forall i, In i now -> existsb (fun y => may_enter s y i) before = true).
    { unfold now, before. now destruct (serves_first s). }
    pose proof (step_bound s mult x p before now V Q Hm Hx P1 P2 SN PN) as B.
    assert (F : Forall (fun i => (i < n_items s)%nat) (enters c)).
    { unfold update in U. destruct (leave (leaves c) cache) as [rest|]; [|easy].
      now apply (enters_in_range _ _ _ _ _ U). }
    pose proof (Zsum_count (size s) (n_items s) (enters c) F) as C.
    assert (E : Zsum (map (fun i => earned s mult entry i cache (x :: tr) (p :: ps) (c :: sch)) (seq 0 (n_items s)))
      = Zsum (map (at_step s mult x p now) (seq 0 (n_items s))) - entry * Zsum (map (size s) (enters c))
        + Zsum (map (fun i => earned s mult entry i held tr ps sch) (seq 0 (n_items s)))).
    { rewrite <- C, <- Z.add_opp_r, <- Z.mul_opp_l, <- Zsum_scale, <- !Zsum_add. apply Zsum_ext. intros i _.
      cbn [earned]. rewrite U. fold now. ring. }
    rewrite E. cbn [map Zsum kept]. fold before. lia.
Qed.

(* ---- weak duality ------------------------------------------------------------------------------------------ *)

(* For any prices >= 0 with entry <= lambda, and for coverage credits in [0, w_t] (honest), LB is at most the
   cost of every schedule. LB = bound / (full mult), cost = c / (full q); multiplied by full mult q.         *)
Theorem weak_duality : forall s p q mult entry ps tr sch c,
  valid_setting s -> valid_trace s tr -> 0 <= mult -> 0 < q -> 0 <= p ->
  proper ps -> Forall2 (honest s mult) tr ps -> 0 <= entry -> q * entry <= p * (full s * mult) ->
  cost s p q tr sch = Some c -> q * bound s mult entry ps tr <= mult * c.
Proof.
  intros s p q mult entry ps tr sch c V T Hm Hq Hp P L He Hl E. unfold cost in E.
  destruct (run s [] tr sch) as [[[m z] last]|] eqn:R; [|easy]. injection E as <-.
  pose proof (schedule_bound s mult entry tr ps sch [] [] m z last V T Hm He P L (sound_nil s V) ltac:(easy) R) as B.
  assert (I : Zsum (map (fun i => earned s mult entry i [] tr ps sch) (seq 0 (n_items s)))
              <= Zsum (map (value s mult entry tr ps) (seq 0 (n_items s)))).
  { apply Zsum_le. intros i _. apply value_bounds_item with m z last; try assumption.
    clear - L. induction L; cbn [length]; congruence. }
  destruct (run_nonneg _ _ _ _ _ _ _ V T R) as [_ Z0].
  assert (Pd : 0 <= paid s z) by (unfold paid; destruct (free_fill s); lia).
  assert (J : q * entry * paid s z <= p * full s * mult * paid s z).
  { apply Z.mul_le_mono_nonneg_r; [assumption|]. lia. }
  assert (K : entry * z - (if free_fill s then capacity s * entry else 0) <= entry * paid s z).
  { unfold paid. destruct (free_fill s); [|lia]. pose proof (Z.le_max_r 0 (z - capacity s)). nia. }
  unfold bound, price.
  set (A := Zsum (map weight tr) * (full s * mult) - kept s mult [] tr ps - Z.of_nat (top_k s) * Zsum (map serve ps)
            - capacity s * Zsum (map slot ps)
            - Zsum (map (value s mult entry tr ps) (seq 0 (n_items s)))) in *.
  assert (A1 : A <= mult * m + entry * z) by (unfold A; lia). clearbody A. clear B I.
  replace (mult * (q * m + p * full s * paid s z)) with (q * (mult * m) + p * full s * mult * paid s z) by ring.
  assert (A2 : (if free_fill s then A - capacity s * entry else A) <= mult * m + entry * paid s z).
  { destruct (free_fill s); lia. }
  apply Z.le_trans with (q * (mult * m + entry * paid s z)); [|lia].
  apply Z.mul_le_mono_nonneg_l; [lia | exact A2].
Qed.

(* Where both numbers of a certificate agree, its schedule is optimal. *)
Theorem tight_is_optimal : forall s p q mult entry ps tr sch c sch' c',
  valid_setting s -> valid_trace s tr -> 0 < mult -> 0 < q -> 0 <= p ->
  proper ps -> Forall2 (honest s mult) tr ps -> 0 <= entry -> q * entry <= p * (full s * mult) ->
  cost s p q tr sch = Some c -> q * bound s mult entry ps tr = mult * c ->
  cost s p q tr sch' = Some c' -> c <= c'.
Proof.
  intros s p q mult entry ps tr sch c sch' c' V T Hm Hq Hp P L He Hl _ E R.
  pose proof (weak_duality s p q mult entry ps tr sch' c' V T ltac:(lia) Hq Hp P L He Hl R). nia.
Qed.

(* ---- rounding up to the grid -------------------------------------------------------------------------------- *)

Definition divides (a b : Z) : bool := b mod a =? 0.

(* grid = gn / gd > 0 of cost. *)
Definition check_grid (s : setting) (p q gn gd : Z) (tr : list query) : bool :=
  let unit := gn * full s / Z.gcd (gn * full s) gd in
  let moved := q * gn / Z.gcd (p * gd) (q * gn) in
  (if covers s then forallb (fun x => divides unit (weight x)) tr
   else divides unit (Zsum (map weight tr) * full s)
        && forallb (fun x => forallb (fun e => divides unit (weight x * quality e)) (row x)) tr)
  && forallb (divides moved) (sizes s)
  && (negb (free_fill s) || divides moved (capacity s)).

(* The least multiple of the grid that is >= L / (full mult), counted in grids. *)
Definition rounded (s : setting) (mult gn gd L : Z) : Z := - ((- (L * gd)) / (full s * mult * gn)).

Lemma divides_spec : forall a b, 0 < a -> divides a b = true -> (a | b).
Proof. intros a b H E. apply Z.eqb_eq in E. apply Z.mod_divide; lia. Qed.

Lemma divide_Zsum : forall a l, Forall (fun z => (a | z)) l -> (a | Zsum l).
Proof. intros a l F. induction F; cbn [Zsum]; [apply Z.divide_0_r | now apply Z.divide_add_r]. Qed.

Lemma gcd_pos : forall a b, 0 < b -> 0 < Z.gcd a b /\ (Z.gcd a b | a) /\ (Z.gcd a b | b).
Proof.
  intros a b H. split; [|split; [apply Z.gcd_divide_l | apply Z.gcd_divide_r]].
  pose proof (Z.gcd_nonneg a b). destruct (Z.eq_dec (Z.gcd a b) 0) as [E|E]; [|lia].
  apply Z.gcd_eq_0_r in E. lia.
Qed.

Lemma used_divides : forall s a l, Forall (fun z => (a | z)) (sizes s) -> (a | Zsum (map (size s) l)).
Proof.
  intros s a l F. apply divide_Zsum, Forall_forall. intros z I. apply in_map_iff in I. destruct I as (i & <- & _).
  unfold size. destruct (nth_in_or_default i (sizes s) 0) as [J | ->]; [|apply Z.divide_0_r].
  rewrite Forall_forall in F. now apply F.
Qed.

Lemma run_divides : forall s u v tr sch cache m z last, valid_trace s tr ->
  Forall (fun x => if covers s then (u | weight x)
                   else Forall (fun e => (u | weight x * quality e)) (row x)) tr ->
  Forall (fun y => (v | y)) (sizes s) -> run s cache tr sch = Some (m, z, last) ->
  (u | Zsum (map weight tr) * full s - m) /\ (v | z).
Proof.
  intros s u v. induction tr as [|x tr IH]; intros [|c sch] cache m z last T F G R; cbn [run] in R; try easy.
  - injection R as <- <- <-. cbn. split; apply Z.divide_0_r.
  - destruct (update s x c cache) as [held|]; [|easy].
    destruct (run s held tr sch) as [[[m' z'] last']|] eqn:R'; [|easy]. injection R as <- <- <-.
    inversion T as [|? ? (_ & N & _) T']; subst. inversion F as [|? ? F1 F']; subst.
    destruct (IH sch held m' z' last' T' F' G R') as [A B]. split.
    + set (now := if serves_first s then cache else held). cbn [map Zsum].
      replace ((weight x + Zsum (map weight tr)) * full s - (miss s x now + m'))
        with (weight x * utility s x now + (Zsum (map weight tr) * full s - m')) by (unfold miss; ring).
      apply Z.divide_add_r; [|assumption]. unfold utility.
      destruct (covers s); [now apply Z.divide_mul_l|].
      destruct (retrieved_ok s x now N) as (_ & _ & I). rewrite Forall_forall in F1.
      assert (All : forall e, In e (retrieved s x now) -> (u | weight x * quality e)).
      { intros e J. apply F1. now apply I. }
      revert All. generalize (retrieved s x now). clear. induction l as [|e l IH]; intros All; cbn [map Zsum].
      * rewrite Z.mul_0_r. apply Z.divide_0_r.
      * rewrite Z.mul_add_distr_l. apply Z.divide_add_r; [apply All; now left | apply IH; intros f J; apply All; now right].
    + apply Z.divide_add_r; [now apply used_divides | assumption].
Qed.

(* If the grid passes, the cost c / (full q) of every schedule is a multiple k of it. *)
Theorem costs_on_grid : forall s p q gn gd tr sch c,
  valid_trace s tr -> 0 < full s -> 0 < q -> 0 < gn -> 0 < gd ->
  check_grid s p q gn gd tr = true -> cost s p q tr sch = Some c ->
  exists k, c * gd = k * gn * (full s * q).
Proof.
  intros s p q gn gd tr sch c T Hf Hq Hn Hd G E. unfold cost in E.
  destruct (run s [] tr sch) as [[[m z] last]|] eqn:R; [|easy]. injection E as <-.
  unfold check_grid in G. rewrite !andb_true_iff in G. destruct G as ((G1 & G3) & G4).
  destruct (gcd_pos (gn * full s) gd Hd) as (H0 & [u Hu] & [d Hd']).
  assert (Hqn : 0 < q * gn) by nia. assert (Hnf : 0 < gn * full s) by nia.
  destruct (gcd_pos (p * gd) (q * gn) Hqn) as (K0 & [a Ha] & [v Hv]).
  set (g1 := Z.gcd (gn * full s) gd) in *. set (g2 := Z.gcd (p * gd) (q * gn)) in *.
  assert (U : gn * full s / g1 = u) by (rewrite Hu; apply Z.div_mul; lia).
  assert (W : q * gn / g2 = v) by (rewrite Hv; apply Z.div_mul; lia).
  rewrite U, W in *. clearbody g1 g2. assert (0 < u) by nia. assert (0 < v) by nia.
  destruct (run_divides s u v tr sch [] m z last T) as [D1 D2]; [| |exact R|].
  - apply Forall_forall. intros x X. destruct (covers s).
    + rewrite forallb_forall in G1. now apply divides_spec, G1.
    + apply andb_true_iff in G1. destruct G1 as [_ G2]. rewrite forallb_forall in G2. specialize (G2 x X).
      rewrite forallb_forall in G2. apply Forall_forall. intros e I. now apply divides_spec, G2.
  - rewrite forallb_forall in G3. apply Forall_forall. intros y Y. now apply divides_spec, G3.
  - assert (G0 : (u | Zsum (map weight tr) * full s)).
    { destruct (covers s).
      - apply Z.divide_mul_l, divide_Zsum, Forall_forall. intros y Y. apply in_map_iff in Y.
        destruct Y as (x & <- & Y). rewrite forallb_forall in G1. now apply divides_spec, G1.
      - apply andb_true_iff in G1. now apply divides_spec. }
    assert (M : (u | m)).
    { replace m with (Zsum (map weight tr) * full s - (Zsum (map weight tr) * full s - m)) by ring.
      now apply Z.divide_sub_r. }
    assert (Pz : (v | paid s z)).
    { unfold paid. destruct (free_fill s); [|assumption]. cbn [negb orb] in G4. apply divides_spec in G4; [|assumption].
      destruct (Z.max_spec 0 (z - capacity s)) as [[_ ->]|[_ ->]]; [now apply Z.divide_sub_r | apply Z.divide_0_r]. }
    destruct M as [j Hj]. destruct Pz as [l Hl]. unfold price. exists (d * j + a * l).
    rewrite Hj, Hl.
    assert (X1 : u * gd = d * (gn * full s)) by (rewrite Hu, Hd'; ring).
    assert (X2 : v * (p * gd) = a * (q * gn)) by (rewrite Ha, Hv; ring).
    transitivity (q * j * (u * gd) + full s * l * (v * (p * gd))); [ring|]. rewrite X1, X2. ring.
Qed.

(* Rounding LB = L / (full mult) up to the grid keeps it a lower bound of every cost on the grid. *)
Theorem rounding_is_sound : forall s p q mult entry ps gn gd tr sch c,
  valid_setting s -> valid_trace s tr -> 0 < full s -> 0 < mult -> 0 < q -> 0 <= p ->
  proper ps -> Forall2 (honest s mult) tr ps -> 0 <= entry -> q * entry <= p * (full s * mult) ->
  0 < gn -> 0 < gd -> check_grid s p q gn gd tr = true -> cost s p q tr sch = Some c ->
  rounded s mult gn gd (bound s mult entry ps tr) * gn * (full s * q) <= c * gd.
Proof.
  intros s p q mult entry ps gn gd tr sch c V T Hf Hm Hq Hp P L He Hl Hn Hd G E.
  destruct (costs_on_grid s p q gn gd tr sch c T Hf Hq Hn Hd G E) as [k K].
  pose proof (weak_duality s p q mult entry ps tr sch c V T ltac:(lia) Hq Hp P L He Hl E) as B.
  set (lb := bound s mult entry ps tr) in *. clearbody lb. rewrite K.
  apply Z.mul_le_mono_nonneg_r; [nia|]. apply Z.mul_le_mono_nonneg_r; [lia|]. unfold rounded.
  assert (S1 : 0 < full s * mult * gn) by (apply Z.mul_pos_pos; nia).
  assert (B1 : q * (lb * gd) <= q * (k * (full s * mult * gn))).
  { replace (q * (lb * gd)) with (q * lb * gd) by ring.
    replace (q * (k * (full s * mult * gn))) with (mult * (k * gn * (full s * q))) by ring. rewrite <- K. nia. }
  assert (B2 : lb * gd <= k * (full s * mult * gn)) by nia.
  assert (- k <= - (lb * gd) / (full s * mult * gn)); [|lia].
  apply Z.div_le_lower_bound; [assumption|]. lia.
Qed.

Print Assumptions heaviest_is_best_path.
Print Assumptions value_bounds_item.
Print Assumptions weak_duality.
Print Assumptions tight_is_optimal.
Print Assumptions costs_on_grid.
Print Assumptions rounding_is_sound.
